"""A second opinion on schedules: does every dependence of the program point forward?

    instance     = (stage, values of its axes): one execution of a statement of the unscheduled program, or an element of an operand
    dependences  = instance -> instances whose values it uses, as exact isl relations of the *unscheduled* nest at concrete sizes
    run          = each executed instance -> the times at which the *scheduled* nest executes it, and what it found in memory then

The question: does each executed instance find the values of exactly the instances that it depends on, no race lying between them, and do
the outputs hold what they held? What is missing is a dependence that does not point forward: its source runs later, or never, or what it
left was overwritten. Executing an instance again is allowed; combining it twice into one element is not, unless the reducer does not mind.

marks         statements that say, wherever a directive moves, copies or inlines them, which instance is executed
dependences   the relations of the unscheduled nest
flow          whose points isl lists: who uses what which other one wrote
run           the scheduled nest, executed on instances instead of values
question      the two compared

It shares no code with the legality proof of `schedules`, and not its way of asking: that proof asks of each directive whether two accesses
may change places; here the end of all directives is held against the beginning. Reductions are sets of what was combined, so their order
is free, which is what a directive states that re-orders them; stores of a scatter that sets, recurrences and scans are not.

Indices, conditions and choices that data decides are those of the data at hand, so the answer is exact for these data and no others.
"""
