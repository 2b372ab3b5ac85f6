"""The differential fuzzer: random definitions under random schedules, judged by oracles that share nothing with code generation.

case          one case as plain JSON: extents, operands, stages, steps
definitions   random definitions (templates, ordered, ragged, inner, nodes, draft)
schedules     random steps, legal and deliberately illegal (rows, placements); sequences   steps that move things twice
directed      definitions drawn for a cell of the table of coverage; towards   steps that lead to where its directive can be tried
program       a case to a `tensorlang` program   bounds      how far a floating-point result may lie off
tags          what a nest computes, symbolically, and where it races
forward       the oracle of dependences (`tests.oracle`) beside the schedule of a case
coverage      which directive was judged on which kind of statement
memory        arrays between pages that must not be touched
oracles       the judgement of one case          replay      steps applied, each refusal held to its contract
refusals      was a refusal needed?              arrays      what results are held in, and how two differ
worker        a disposable process that judges   run         the command; shrink makes failures small
faults        faults injected into the compiler (mutants, faulty_code, faulty_steps), to see whether the fuzzer notices
"""
