"""Loads and stores: how the lanes of an access lie in memory decides the instruction.

    uniform                one scalar access
    step 1, step -1        one vector access, reversed for -1; `llvm.masked.*` under a mask
    step 2, 3, 4           vector loads of the span from the first to the last element, and shuffles; under a mask, where the target
                           has masked vectors, each of these loads under the part of the mask that falls on it
    step -2, -3, -4        the same, in the opposite order
    known places           no further apart than there are lanes (`x // 4`): one vector load, and a shuffle; further (`x // 2 * 3`):
                           loads of all that lies between, and shuffles, where that is at most one of each for two lanes
    rising by one at most  one load, and an instruction that moves lanes (`rising`)
    anything else          element by element; under a mask, or where the indices are data, a gather or scatter
    written where data     one lane after the other, by their addresses on the stack (`in_turn`)
      tell under a mask, or combined there

Nothing outside the lanes that are on is touched: a mask goes to the memory instruction. The exception is storage of our own at a constant
place (`Access.owned`): all its lanes exist and no one else sees them, so a masked access becomes a whole one and a blend, which lets
LLVM keep the storage in registers; where nothing reads lanes that are off, without the blend. Lanes that are off load zeros. Addresses are
`getelementptr` in 64 bits, never integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from llvmlite import ir as llvm

from tensorlang.codegen.emission import contiguous, rising
from tensorlang.codegen.emission.lanes import leading, picked, pieces, pinned, resized, reverse
from tensorlang.codegen.emission.types import (
    I1,
    I32,
    I64,
    POINTER,
    VOID,
    Builder,
    Poison,
    Value,
    element_of,
    filled,
    in_memory,
    intrinsic,
    lanes_of,
    literal,
    shaped,
    splat,
)
from tensorlang.codegen.emission.vector_access import VectorAccess, address
from tensorlang.codegen.target import Target
from tensorlang.ir.dtype import BOOL, DType

LONGEST_STEP: Final = 4
"""How far apart lanes may lie for the elements between them to be loaded as well."""
MOST_LANES: Final = 64
"""Lanes up to which elements that lie near each other are loaded at once."""
LEAST_TAKEN: Final = 64
"""Bits of a vector of narrow elements that is taken out of larger loads."""
LEAST_SHUFFLED: Final = 256
"""Bits of a vector from which elements of several are collected in fewer instructions than there are lanes, and loads can be masked."""


def load(builder: Builder, target: Target, access: VectorAccess, mask: Value | None) -> Value:
    """The elements of an access, zero in lanes that are off; the caller knows that a uniform one is wanted by some lane."""
    dtype, element, align = access.place.dtype, in_memory(access.place.dtype), access.place.dtype.bytes
    vector = shaped(element, access.lanes)
    off = mask if access.owned and not access.uniform else None
    if access.owned:
        mask = None
    if access.uniform:
        value = builder.load(access.base, name=access.place.name, align=align, typ=element)
    elif access.held is not None and mask is None:
        registers, first = [builder.bitcast(register, vector) for register in access.held.registers], access.held.first
        value = picked(builder, registers[0], registers[-1], range(first, first + access.lanes))
    elif access.step == 1:
        value = contiguous.load(builder, target, access.place.name, access.base, vector, align, mask)
    elif access.step == -1:
        first = address(builder, dtype, access.base, literal(I64, 1 - access.lanes))
        turned = None if mask is None else reverse(builder, mask)
        value = reverse(builder, contiguous.load(builder, target, access.place.name, first, vector, align, turned))
    elif _spans(target, access, mask):
        value = _spanned(builder, target, access, vector, mask)
    elif _is_near(target, access):
        value = _near(builder, target, access, vector, mask)
    elif mask is None and _is_near_narrow(target, access):
        value = _near_narrow(builder, access, vector)
    elif _is_near_enough(target, access, mask):
        value = _collected(builder, target, access, vector, mask)
    elif rising.is_loaded(target, access, mask):
        value = rising.load(builder, target, access, mask)
    else:
        value = _scattered(builder, target, access, vector, mask)
    if off is not None and access.place.spare:  # what happens to lie there may be denormal, and slow to add to
        value = builder.select(off, value, filled(value.type, 0))
    elif off is not None and access.place.idle_kept:
        value = _fenced(builder, target, value)
    return builder.icmp_unsigned("!=", value, filled(value.type, 0)) if dtype == BOOL else value


def store(builder: Builder, target: Target, access: VectorAccess, value: Value, mask: Value | None, *, read_again: bool = False) -> None:
    """Write the lanes that are on. What is `read_again` soon is written by stores that touch nothing else."""
    dtype, element, align = access.place.dtype, in_memory(access.place.dtype), access.place.dtype.bytes
    if dtype == BOOL:
        value = builder.zext(value, shaped(element, lanes_of(value)))
    if access.uniform:
        builder.store(value, access.base, align=align)
        return
    value = splat(builder, value, access.lanes)
    if mask is not None and access.owned and access.is_distinct:  # else a lane that is off would put back what another one has written
        value = builder.select(mask, value, _fenced(builder, target, _raw(builder, access))) if access.place.idle_kept else value
        mask = None
    base = access.base
    if access.step == -1:
        base = address(builder, dtype, base, literal(I64, 1 - access.lanes))
        value, mask = reverse(builder, value), None if mask is None else reverse(builder, mask)
    if access.step in (1, -1):
        if mask is None:
            builder.store(value, base, align=align)
        elif first := _leading(target, mask, read_again=read_again):
            store_parts(builder, dtype, base, value, pieces(first))
        else:
            wide = contiguous.widened(target, mask, 8 * align)
            kept, mask = (resized(builder, part, rest, wide) for part, rest in ((value, Poison(value.type)), (mask, filled(mask.type, 0))))
            kept = pinned(builder, target, kept)
            intrinsic(builder, "masked.store", VOID, [kept, base, mask], [value.type, POINTER], align={1: align})
    elif mask is None:
        for lane, place in enumerate(_addresses(builder, access)):
            builder.store(builder.extract_element(value, literal(I32, lane)), place, align=align)
    else:
        places = pointers(builder, access)
        intrinsic(builder, "masked.scatter", VOID, [value, places, mask], [value.type, places.type], align={1: align})


def _leading(target: Target, mask: Value, *, read_again: bool) -> int:
    """How many lanes are on where these are known to be the first ones, and are better written by stores of their own; else 0.

    Without registers for masks a masked store takes some forty steps on processors of AMD, and one for each lane on Arm's; what a row of
    unknown alignment leaves over is a store of four lanes, one of two and one of one. With them the lanes that are off belong to a store
    all the same where a load looks for what was written before it: of a row that is updated the next row waits, some twenty cycles, until
    the store has left for the cache.
    """
    return leading(mask, lanes_of(mask)) if read_again or not target.has_masks else 0


def store_parts(builder: Builder, dtype: DType, base: Value, value: Value, parts: Iterable[tuple[int, int]]) -> None:
    """Write some lanes of a vector, each to its own place behind `base`: parts by where they begin, and their lanes."""
    for start, size in parts:
        if size == 1:
            part = builder.extract_element(value, literal(I32, start))
        else:
            part = value if size == lanes_of(value) else picked(builder, value, Poison(value.type), range(start, start + size))
        builder.store(part, address(builder, dtype, base, literal(I64, start)), align=dtype.bytes)


def prefetch(builder: Builder, access: VectorAccess, level: int) -> None:
    """Ask for the cache line of an element: to read, to keep in the caches from a level on, as data."""
    flags = [literal(I32, 0), literal(I32, 4 - level), literal(I32, 1)]
    intrinsic(builder, "prefetch", VOID, [access.base, *flags], [POINTER])


def _raw(builder: Builder, access: VectorAccess) -> Value:
    """The elements of owned storage as they are in memory."""
    dtype = access.place.dtype
    vector = shaped(in_memory(dtype), access.lanes)
    if access.step in (1, -1):
        first = access.base if access.step == 1 else address(builder, dtype, access.base, literal(I64, 1 - access.lanes))
        whole = builder.load(first, align=dtype.bytes, typ=vector)
        return whole if access.step == 1 else reverse(builder, whole)
    return _elements(builder, access, vector)


def _fenced(builder: Builder, target: Target, value: Value) -> Value:
    """The elements of owned storage, where a blend keeps some of them, such that the blend stays with the operation on the others.

    LLVM reads `select(m, f(select(m, a, b)), select(m, a, b))` as `select(m, f(a), b)`. So of an accumulator's blends the last would be
    left, with what its lanes held long before: they take a register more and wait for the turn of the loop before, and where masks differ
    each sum is blended by itself. Kept apart, a sum and its blend are one masked instruction (depthwise convolutions: 1.1 to 1.7 times
    faster).
    """
    masked = target.has_masks and isinstance(element_of(value), (llvm.FloatType, llvm.DoubleType))
    return intrinsic(builder, "arithmetic.fence", value.type, [value], [value.type]) if masked else value


def _spans(target: Target, access: VectorAccess, mask: Value | None) -> bool:
    """Is a load of what lies between the lanes cheaper than one for each lane?"""
    if access.offsets is not None or not 1 < abs(access.step) <= LONGEST_STEP or access.lanes < 2:
        return False
    if mask is None:
        return access.step == 2 or target.vector_bits >= LEAST_SHUFFLED
    wide = target.is_x86 and target.vector_bits >= LEAST_SHUFFLED and access.place.dtype.bits >= I32.width  # AVX masks 32 and 64 bits
    return wide or target.has_masks


def _spanned(builder: Builder, target: Target, access: VectorAccess, vector: llvm.Type, mask: Value | None) -> Value:
    """Elements 0, k, ... k (n - 1), from loads of n elements each, of which the last one ends with the last element that is wanted.

    Where the block around them may be read whole, the loads are those of the block, which others of its elements take as well.
    Under a mask a load touches only what is wanted: its lanes are on where they take the element of a lane that is on.
    """
    count, apart, place = access.lanes, abs(access.step), access.place
    last = apart * (count - 1)
    base, rising = access.base, mask
    if access.step < 0:
        base, rising = address(builder, place.dtype, base, literal(I64, -last)), None if mask is None else reverse(builder, mask)
    value: Value | None = None
    held: dict[int, int] = {}
    found = 0
    whole = access.before if mask is None and access.step > 0 else None
    for part in range(apart):
        start = min(part * count, last + 1 - count) if whole is None else part * count - whole
        places = {lane: apart * lane - start for lane in range(found, min(count, (start + count - 1) // apart + 1))}
        if not places:
            continue
        wanted = None if rising is None else _spread(builder, rising, places)
        first = address(builder, place.dtype, base, literal(I64, start))
        loaded = contiguous.load(builder, target, place.name, first, vector, place.dtype.bytes, wanted)
        if value is None:
            value, held = loaded, places  # put in order together with those of the next load
        else:
            order = [held.get(lane, count + places.get(lane, 0)) for lane in range(count)]
            value = builder.shuffle_vector(value, loaded, llvm.Constant(llvm.VectorType(I32, count), order))
            held = {lane: lane for lane in range(found + len(places))}
        found += len(places)
    assert value is not None
    return value if access.step > 0 else reverse(builder, value)


def _is_near(target: Target, access: VectorAccess) -> bool:
    """Do known places lie no further apart than lanes do, so that one load has them all?"""
    return access.place.dtype.bits >= I32.width and target.vector_bits >= LEAST_SHUFFLED and _lies_near(target, access)


def _is_near_narrow(target: Target, access: VectorAccess) -> bool:
    """The same of elements that have no masked loads on all processors, and shuffles of whole registers."""
    bits = access.place.dtype.bits
    return bits < I32.width and access.lanes * bits >= LEAST_TAKEN and "ssse3" in target.isa and _lies_near(target, access)


def _lies_near(target: Target, access: VectorAccess) -> bool:
    offsets = access.constant_offsets()
    return target.is_x86 and offsets is not None and 1 < access.lanes <= MOST_LANES and 0 < max(offsets) - min(offsets) < access.lanes


def _near_narrow(builder: Builder, access: VectorAccess, vector: llvm.Type) -> Value:
    """Each lane its own element, or one that others take as well, out of loads that together touch from the first of them to the last."""
    offsets, place = access.constant_offsets() or (), access.place
    first, lanes, value = min(offsets), range(access.lanes), Poison(vector)
    for start, size in pieces(max(offsets) - first + 1):
        kind = shaped(vector.element, size)
        at = address(builder, place.dtype, access.base, literal(I64, first + start))
        part = builder.load(at, name=place.name, align=place.dtype.bytes, typ=kind)
        if lanes_of(part):
            order = [access.lanes + lane - start if start <= lane < start + size else lane for lane in lanes]
            value = picked(builder, value, resized(builder, part, part, access.lanes), order)
        else:
            value = builder.insert_element(value, part, literal(I32, start))
    return picked(builder, value, value, [offset - first for offset in offsets])


def _is_near_enough(target: Target, access: VectorAccess, mask: Value | None) -> bool:
    """Do known places lie so near that loads of all between them, and as many shuffles, are fewer than a load for each of them?

    Of bytes and words: lanes of 32 bits and more are put together in as few instructions from loads of one each.
    """
    offsets, masks = access.constant_offsets(), mask is None or target.has_masks
    if access.place.dtype.bits >= I32.width or not (target.is_x86 and masks) or target.vector_bits < LEAST_SHUFFLED:
        return False
    if offsets is None or access.lanes > MOST_LANES:
        return False
    span = max(offsets) - min(offsets) + 1
    return access.lanes <= span and 2 * span <= access.lanes * len(set(offsets))


def _collected(builder: Builder, target: Target, access: VectorAccess, vector: llvm.Type, mask: Value | None) -> Value:
    """Each lane its element, out of loads of as many, from the first element that is wanted to the last."""
    offsets, place, count = access.constant_offsets() or (), access.place, access.lanes
    last, value, missing = max(offsets), Poison(vector), set(range(count))
    while missing:  # what is loaded next begins with the first element that is missing
        start = min(*(offsets[lane] for lane in missing), last + 1 - count)
        taken = {lane: offsets[lane] - start for lane in missing if offsets[lane] - start < count}
        wanted = None if mask is None else _wanted(builder, mask, taken)
        first = address(builder, place.dtype, access.base, literal(I64, start))
        loaded = contiguous.load(builder, target, place.name, first, vector, place.dtype.bytes, wanted)
        value = picked(builder, value, loaded, [count + taken[lane] if lane in taken else lane for lane in range(count)])
        missing -= taken.keys()
    return value


def _wanted(builder: Builder, mask: Value, taken: Mapping[int, int]) -> Value:
    """Where some lane that is on takes an element of a load: lanes by which one they take."""
    takers = [[lane for lane, at in taken.items() if at == place] for place in range(lanes_of(mask))]
    wanted = filled(mask.type, 0)
    for turn in range(max(map(len, takers))):
        some = {taking[turn]: place for place, taking in enumerate(takers) if turn < len(taking)}
        wanted = builder.or_(wanted, _spread(builder, mask, some))
    return wanted


def _near(builder: Builder, target: Target, access: VectorAccess, vector: llvm.Type, mask: Value | None) -> Value:
    """Each lane its own element, or one that others take as well, out of a load from the first of them to the last."""
    offsets, place, lanes = access.constant_offsets() or (), access.place, range(access.lanes)
    first, last = min(offsets), max(offsets)
    if mask is None and not target.has_masks and access.lanes * place.dtype.bits == target.vector_bits:
        halves = _windows(offsets)
        if halves is not None:
            return _in_halves(builder, access, offsets, halves)
    wanted: Value | None = None
    if mask is None:
        wanted = literal(I1, tuple(int(first + lane <= last) for lane in lanes)) if last - first < access.lanes - 1 else None
    else:
        wanted = _wanted(builder, mask, {lane: offsets[lane] - first for lane in lanes})
    base = address(builder, place.dtype, access.base, literal(I64, first))
    found = contiguous.load(builder, target, place.name, base, vector, place.dtype.bytes, wanted)
    order = llvm.Constant(llvm.VectorType(I32, access.lanes), [offset - first for offset in offsets])
    return builder.shuffle_vector(found, Poison(vector), order)


def _windows(offsets: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """For each half of a register, where a load begins that has all that its lanes take, and of how many elements it is.

    None where a half takes more than it has lanes, or a load would touch what no lane takes; and where each half takes one element, which
    would be two registers for a moment, in loops that have none to spare.
    """
    half = len(offsets) // 2
    first, last, found = min(offsets), max(offsets), list[tuple[int, int]]()
    for own in (offsets[:half], offsets[half:]):
        size = 1 << (max(own) - min(own)).bit_length()
        if size > half or size > last - first + 1:
            return None
        found.append((min(*own, last + 1 - size), size))
    return found if any(size > 1 for _, size in found) else None


def _in_halves(builder: Builder, access: VectorAccess, offsets: tuple[int, ...], windows: list[tuple[int, int]]) -> Value:
    """Lanes out of a load for each half of a register: none crosses from one half into the other, which takes eight cycles on a Zen 3."""
    dtype, half = access.place.dtype, access.lanes // 2
    parts: list[Value] = []
    for place, (start, size) in enumerate(windows):
        first = address(builder, dtype, access.base, literal(I64, start))
        found = builder.load(first, name=access.place.name, align=dtype.bytes, typ=shaped(in_memory(dtype), size if size > 1 else 0))
        own = [offset - start for offset in offsets[place * half : (place + 1) * half]]
        parts.append(splat(builder, found, half) if size == 1 else picked(builder, found, Poison(found.type), own))
    return builder.shuffle_vector(*parts, llvm.Constant(llvm.VectorType(I32, access.lanes), list(range(access.lanes))))


def _spread(builder: Builder, mask: Value, places: dict[int, int]) -> Value:
    """The mask whose lane `places[l]` is lane l of `mask`; the others are off."""
    count, lanes = lanes_of(mask), {place: lane for lane, place in places.items()}
    order = [lanes.get(place, count) for place in range(count)]
    return builder.shuffle_vector(mask, filled(mask.type, 0), llvm.Constant(llvm.VectorType(I32, count), order))


def _scattered(builder: Builder, target: Target, access: VectorAccess, vector: llvm.Type, mask: Value | None) -> Value:
    gathers = vector.element.intrinsic_name in ("i32", "i64", "f32", "f64") and not target.isa.isdisjoint(("avx2", "avx512f"))
    if mask is None and not (gathers and access.constant_offsets() is None):
        return _elements(builder, access, vector)
    mask = filled(shaped(I1, access.lanes), 1) if mask is None else mask
    places = pointers(builder, access)
    args = [places, mask, filled(vector, 0)]
    return intrinsic(builder, "masked.gather", vector, args, [vector, places.type], align={0: access.place.dtype.bytes})


def _elements(builder: Builder, access: VectorAccess, vector: llvm.Type) -> Value:
    value = Poison(vector)
    for lane, place in enumerate(_addresses(builder, access)):
        one = builder.load(place, name=access.place.name, align=access.place.dtype.bytes, typ=vector.element)
        value = builder.insert_element(value, one, literal(I32, lane))
    return value


def _addresses(builder: Builder, access: VectorAccess) -> list[Value]:
    """The address of each lane's element."""
    constants = access.constant_offsets()
    if constants is not None:
        offsets = [literal(I64, offset) for offset in constants]
    else:
        offsets = [builder.extract_element(access.offsets, literal(I32, lane)) for lane in range(access.lanes)]
    return [address(builder, access.place.dtype, access.base, offset) for offset in offsets]


def pointers(builder: Builder, access: VectorAccess) -> Value:
    """The vector of the addresses of all lanes."""
    constants = access.constant_offsets()
    offsets = access.offsets if constants is None else splat(builder, literal(I64, constants), access.lanes)
    pointers = builder.gep(access.base, [offsets], source_etype=in_memory(access.place.dtype))
    pointers.type = llvm.VectorType(POINTER, access.lanes)  # llvmlite gives the type of `base`
    return pointers
