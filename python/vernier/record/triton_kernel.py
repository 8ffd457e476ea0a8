"""The kernel that src/record/cuda_source.cc has in CUDA, for every device that Triton compiles for.

Sums are added in the order of that kernel, so that both give the same bits: 256 lanes take turns with vectors of 16
bytes, lanes are joined as shuffles join a warp of 32, warps one after the other, blocks like lanes. The numbers of a
job arrive in memory of the host; their exclusive or tells when they are whole.
"""

import triton
import triton.language as tl

MAX_JOBS = 4  # of one launch; a tensor that is not one run of memory is alone
RING_PLACES = 8192  # for what was found
PART_WORDS = MAX_JOBS * (528 * 8 + 1)  # what blocks found, and for each job how many have
SKETCH_PART_WORDS = MAX_JOBS * 528 * 66  # behind these: sketches of blocks
LANES = tl.constexpr(256)
_WORDS_OF_FOUND = tl.constexpr(8)
_MAX_BLOCKS = tl.constexpr(528)
_RING = tl.constexpr(RING_PLACES)
_PARTS = tl.constexpr(PART_WORDS)
_SUMS, _WORDS_OF_SKETCH, _ROWS = tl.constexpr(64), tl.constexpr(66), tl.constexpr(16)
ONE_RUN, _RUNS_OF_VECTORS = tl.constexpr(0), tl.constexpr(1)  # layouts; else elements lie anywhere
# Kinds of elements, as cuda_shared.h counts them; those above are whole numbers.
_F64, _F32, _F16, _BF16 = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
_I8, _I16, _I32, _I64 = tl.constexpr(4), tl.constexpr(5), tl.constexpr(6), tl.constexpr(7)
_U8, _U16, _U32 = tl.constexpr(8), tl.constexpr(9), tl.constexpr(10)
# Where the tables for CRC-32 begin, in words of 32 bits: to step over all lanes, over a word, to a lane, powers.
_STEP, _WORD, _PLACE, _POWER = tl.constexpr(0), tl.constexpr(128), tl.constexpr(256), tl.constexpr(512)
_INFINITY = tl.constexpr(float("inf"))
_LARGEST = tl.constexpr(2**63 - 1)


# -- elements


@triton.jit
def _offset(element, sizes, strides, AXES: tl.constexpr):
    """Of an element in logical order, in elements."""
    offset = element * 0
    for i in tl.static_range(AXES - 1):
        size = sizes[AXES - 1 - i].to(element.dtype)
        quotient = element // size
        offset += (element - quotient * size) * strides[AXES - 1 - i].to(element.dtype)
        element = quotient
    return offset + element * strides[0].to(element.dtype)


@triton.jit
def _load_vectors(words, first, inside):
    """Four words of 32 bits for each lane, from ``first`` on."""
    four = first[:, None] + tl.arange(0, 4)[None, :]
    both = tl.load(words + four, mask=inside[:, None], other=0)
    even, odd = tl.split(tl.reshape(both, (LANES, 2, 2)))
    w0, w2 = tl.split(even)
    w1, w3 = tl.split(odd)
    return w0, w1, w2, w3


@triton.jit
def _gather(data, vector, num_elements, sizes, strides, BYTES: tl.constexpr, LAYOUT: tl.constexpr, AXES: tl.constexpr):
    """The words of a vector, element by element; zeros before the first and behind the last."""
    PER_VECTOR: tl.constexpr = 16 // BYTES
    low = tl.zeros((LANES,), tl.uint64)
    high = tl.zeros((LANES,), tl.uint64)
    for i in tl.static_range(PER_VECTOR):
        element = vector * PER_VECTOR + i
        inside = (element >= 0) & (element < num_elements)
        offset = element.to(tl.int64)
        if LAYOUT != ONE_RUN:
            offset = _offset(tl.where(inside, element, 0), sizes, strides, AXES).to(tl.int64)
        if BYTES == 1:
            bits = tl.load(data.to(tl.pointer_type(tl.uint8)) + offset, mask=inside, other=0).to(tl.uint64)
        elif BYTES == 2:
            bits = tl.load(data.to(tl.pointer_type(tl.uint16)) + offset, mask=inside, other=0).to(tl.uint64)
        elif BYTES == 4:
            bits = tl.load(data.to(tl.pointer_type(tl.uint32)) + offset, mask=inside, other=0).to(tl.uint64)
        else:
            bits = tl.load(data.to(tl.pointer_type(tl.uint64)) + offset, mask=inside, other=0)
        if i * BYTES < 8:
            low |= bits << (8 * (i * BYTES % 8))
        else:
            high |= bits << (8 * (i * BYTES % 8))
    return low.to(tl.uint32), (low >> 32).to(tl.uint32), high.to(tl.uint32), (high >> 32).to(tl.uint32)


@triton.jit
def _load(
    data, vector, end, num_elements, sizes, strides,
    BYTES: tl.constexpr, LAYOUT: tl.constexpr, AXES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Whole vectors before ``end``, zeros behind it."""
    inside = vector < end
    index = vector if WIDE else vector.to(tl.int32)
    words = tl.multiple_of(data.to(tl.pointer_type(tl.uint32)), 16)
    if LAYOUT == ONE_RUN:
        found = _load_vectors(words, vector * 4, inside)
    elif LAYOUT == _RUNS_OF_VECTORS:
        offset = _offset(tl.where(inside, index * (16 // BYTES), 0), sizes, strides, AXES)
        found = _load_vectors(words, tl.multiple_of(offset.to(tl.int64) * BYTES // 4, (4,)), inside)
    else:
        found = _gather(data, tl.where(inside, index, -1), num_elements, sizes, strides, BYTES, LAYOUT, AXES)
    return found


@triton.jit
def _fold(words):
    return (words[0] ^ words[2]).to(tl.uint64) | ((words[1] ^ words[3]).to(tl.uint64) << 32)


@triton.jit
def _item(w0, w1, w2, w3, KIND: tl.constexpr, BYTES: tl.constexpr, WHICH: tl.constexpr):
    """Element WHICH of a vector: float32, float64 or int64."""
    AT: tl.constexpr = WHICH * BYTES // 4
    SHIFT: tl.constexpr = 8 * (WHICH * BYTES % 4)
    if BYTES == 8:
        if AT == 0:
            bits = w0.to(tl.uint64) | (w1.to(tl.uint64) << 32)
        else:
            bits = w2.to(tl.uint64) | (w3.to(tl.uint64) << 32)
        if KIND == _F64:
            item = bits.to(tl.float64, bitcast=True)
        elif KIND == _I64:
            item = bits.to(tl.int64, bitcast=True)
        else:  # unsigned: ordered as signed numbers are; the host turns the highest bit back
            item = bits.to(tl.int64, bitcast=True) ^ (-_LARGEST - 1)
    else:
        if AT == 0:
            word = w0
        elif AT == 1:
            word = w1
        elif AT == 2:
            word = w2
        else:
            word = w3
        if KIND == _F32:
            item = word.to(tl.float32, bitcast=True)
        elif KIND == _BF16:
            item = ((word >> SHIFT) << 16).to(tl.float32, bitcast=True)
        elif KIND == _F16:
            item = (word >> SHIFT).to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)
        elif KIND == _I8:
            item = (word >> SHIFT).to(tl.uint8).to(tl.int8, bitcast=True).to(tl.int64)
        elif KIND == _I16:
            item = (word >> SHIFT).to(tl.uint16).to(tl.int16, bitcast=True).to(tl.int64)
        elif KIND == _I32:
            item = word.to(tl.int32, bitcast=True).to(tl.int64)
        elif KIND == _U8:
            item = (word >> SHIFT).to(tl.uint8).to(tl.int64)
        elif KIND == _U16:
            item = (word >> SHIFT).to(tl.uint16).to(tl.int64)
        else:
            item = word.to(tl.int64)
    return item


@triton.jit
def _nothing(KIND: tl.constexpr):
    """Lowest and highest of no elements."""
    if KIND > _BF16:
        low = tl.full((LANES,), _LARGEST, tl.int64)
        high = tl.full((LANES,), -_LARGEST - 1, tl.int64)
    elif KIND == _F64:
        low = tl.full((LANES,), _INFINITY, tl.float64)
        high = tl.full((LANES,), -_INFINITY, tl.float64)
    else:
        low = tl.full((LANES,), _INFINITY, tl.float32)
        high = tl.full((LANES,), -_INFINITY, tl.float32)
    return low, high


@triton.jit
def _tally(low, high, total, squares, words, vector, end, num_elements, KIND: tl.constexpr, BYTES: tl.constexpr):
    """Adds the elements of each lane's vector, as far as they are of the tensor and before ``end``."""
    none_low, none_high = _nothing(KIND)
    first = vector * (16 // BYTES)
    count = tl.where(vector < end, num_elements - first, 0)
    for i in tl.static_range(16 // BYTES):
        item = _item(words[0], words[1], words[2], words[3], KIND, BYTES, i)
        inside = i < count
        is_number = inside & (item == item)  # NaN is found in the sum
        low = tl.minimum(low, tl.where(is_number, item, none_low))
        high = tl.maximum(high, tl.where(is_number, item, none_high))
        value = tl.where(inside, item, 0).to(tl.float64)
        total += value
        squares = tl.fma(value, value, squares)
    return low, high, total, squares


# -- lanes into one


@triton.jit
def _add_lanes(x):
    x = tl.sum(tl.reshape(x, (8, 2, 16)), axis=1)
    x = tl.sum(tl.reshape(x, (8, 2, 8)), axis=1)
    x = tl.sum(tl.reshape(x, (8, 2, 4)), axis=1)
    x = tl.sum(tl.reshape(x, (8, 2, 2)), axis=1)
    x = tl.sum(x, axis=1)
    warp = tl.arange(0, 8)
    total = tl.sum(tl.where(warp == 0, x, 0.0))
    for i in tl.static_range(1, 8):
        total += tl.sum(tl.where(warp == i, x, 0.0))
    return total


# -- CRC-32, as polynomials: see cuda_shared.h


@triton.jit
def _times_table(table, value):
    """Times a constant, of which ``table`` has the product with every half byte."""
    product = tl.load(table + (value & 15))
    for i in tl.static_range(1, 8):
        product ^= tl.load(table + 16 * i + ((value >> (4 * i)) & 15))
    return product


@triton.jit
def _times(a, b):
    product = a & 0
    for _ in range(32):
        product ^= b & (0 - (a >> 31))
        a = a << 1
        b = (b >> 1) ^ (0xEDB88320 & (0 - (b & 1)))
    return product


@triton.jit
def _power(tables, exponent):
    power = tables + _POWER
    low = _times(tl.load(power + (exponent & 255)), tl.load(power + 256 + ((exponent >> 8) & 255)))
    high = _times(tl.load(power + 512 + ((exponent >> 16) & 255)), tl.load(power + 768 + (exponent >> 24)))
    return _times(low, high)


@triton.jit
def _finish_crc(tables, c0, c1, c2, c3, bits_behind):
    c = _times_table(tables + _WORD, c0) ^ c1
    c = _times_table(tables + _WORD, c) ^ c2
    c = _times_table(tables + _WORD, c) ^ c3
    rest = tl.xor_sum(_times(c, tl.load(tables + _PLACE + tl.arange(0, LANES))), axis=0)
    order = tl.full((), 0xFFFFFFFF, tl.int64)
    exponent = ((bits_behind % order) + order) % order
    return _times(rest, _power(tables, exponent.to(tl.uint32)))


# -- sketches: see measure/sketch.h


@triton.jit
def _mix(counter):
    z = (counter + 1) * 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def _value(data, offset, inside, KIND: tl.constexpr):
    """An element as double; 0 where there is none."""
    if KIND == _F64:
        item = tl.load(data.to(tl.pointer_type(tl.float64)) + offset, mask=inside, other=0)
    elif KIND == _F32:
        item = tl.load(data.to(tl.pointer_type(tl.float32)) + offset, mask=inside, other=0)
    elif KIND == _F16:
        item = tl.load(data.to(tl.pointer_type(tl.float16)) + offset, mask=inside, other=0)
    elif KIND == _BF16:
        bits = tl.load(data.to(tl.pointer_type(tl.uint16)) + offset, mask=inside, other=0)
        item = (bits.to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    elif KIND == _I8:
        item = tl.load(data.to(tl.pointer_type(tl.int8)) + offset, mask=inside, other=0)
    elif KIND == _I16:
        item = tl.load(data.to(tl.pointer_type(tl.int16)) + offset, mask=inside, other=0)
    elif KIND == _I32:
        item = tl.load(data.to(tl.pointer_type(tl.int32)) + offset, mask=inside, other=0)
    elif KIND == _I64:
        item = tl.load(data.to(tl.pointer_type(tl.int64)) + offset, mask=inside, other=0)
    elif KIND == _U8:
        item = tl.load(data.to(tl.pointer_type(tl.uint8)) + offset, mask=inside, other=0)
    elif KIND == _U16:
        item = tl.load(data.to(tl.pointer_type(tl.uint16)) + offset, mask=inside, other=0)
    elif KIND == _U32:
        item = tl.load(data.to(tl.pointer_type(tl.uint32)) + offset, mask=inside, other=0)
    else:
        item = tl.load(data.to(tl.pointer_type(tl.uint64)) + offset, mask=inside, other=0)
    return item.to(tl.float32).to(tl.float64) if KIND == _F16 else item.to(tl.float64)


@triton.jit
def _sketch(
    data, begin, end, num_elements, sizes, strides, KIND: tl.constexpr, LAYOUT: tl.constexpr, AXES: tl.constexpr
):
    """The 64 sums of the elements from ``begin`` to ``end``, and how many counted as 0; few are told as they are.

    A lane has one sum and looks for the element that goes there: all of a row lie together, so that this second
    reading comes from the cache.
    """
    place = tl.arange(0, _SUMS).to(tl.int64)
    row = tl.arange(0, _ROWS).to(tl.int64)
    sums = tl.zeros((_ROWS, _SUMS), tl.float64)
    bad = tl.zeros((_ROWS, _SUMS), tl.int64)
    is_few = num_elements < _SUMS
    for first in range(begin // _SUMS, (end + _SUMS - 1) // _SUMS, _ROWS):
        block = first + row
        signs = _mix((2 * block).to(tl.uint64))
        turn = (_mix((2 * block + 1).to(tl.uint64)) & 63).to(tl.int64)
        turn = tl.where(is_few, 0, turn)
        signs = tl.where(is_few, 0, signs.to(tl.int64, bitcast=True)).to(tl.uint64, bitcast=True)
        taken = place[None, :] ^ turn[:, None]
        element = block[:, None] * _SUMS + taken
        inside = element < end
        offset = element
        if LAYOUT != ONE_RUN:
            offset = _offset(tl.where(inside, element, 0), sizes, strides, AXES)
        value = _value(data, offset, inside, KIND)
        counts = (tl.abs(value) <= 1e30) | is_few
        negative = ((signs[:, None] >> taken.to(tl.uint64)) & 1) != 0
        value = tl.where(counts, tl.where(negative, -value, value), 0.0)
        sums = tl.where(inside, tl.where(is_few, value, sums + value), sums)
        bad += (inside & (counts == 0)).to(tl.int64)
    # Few are in the first row alone, and keep every bit, be it the sign of a zero.
    kept = tl.xor_sum(sums.to(tl.int64, bitcast=True), axis=0).to(tl.float64, bitcast=True)
    return tl.where(is_few, kept, tl.sum(sums, axis=0)), tl.sum(tl.sum(bad, axis=1), axis=0)


@triton.jit
def _publish_sketch(ring, sequence, sums, bad):
    to = ring.to(tl.pointer_type(tl.int64)) + _RING * _WORDS_OF_FOUND + (sequence % _RING) * _WORDS_OF_SKETCH
    bits = sums.to(tl.int64, bitcast=True)
    tl.store(to + tl.arange(0, _SUMS), bits)
    tl.store(to + _SUMS, bad)
    tl.store(to + _SUMS + 1, tl.xor_sum(bits, axis=0) ^ bad ^ sequence)


# -- jobs


@triton.jit
def _publish(
    data, num_elements, sequence, ring, sizes, strides, total, squares, low, high, digest,
    KIND: tl.constexpr, BYTES: tl.constexpr, STATISTICS: tl.constexpr, LAYOUT: tl.constexpr, AXES: tl.constexpr,
):  # fmt: skip
    negative = sequence * 0
    if STATISTICS and KIND <= _BF16:
        # Where every element is a zero, the last one's sign counts.
        if low == 0 and high == 0:
            last = num_elements - 1
            if LAYOUT != ONE_RUN:
                last = _offset(last, sizes, strides, AXES)
            byte = data.to(tl.pointer_type(tl.uint8)) + (last + 1) * BYTES - 1
            negative = (tl.load(byte) >> 7).to(tl.int64)
    if KIND <= _BF16:
        low_bits = low.to(tl.float64).to(tl.int64, bitcast=True)
        high_bits = high.to(tl.float64).to(tl.int64, bitcast=True)
    else:
        low_bits = low
        high_bits = high
    total_bits = total.to(tl.int64, bitcast=True)
    squares_bits = squares.to(tl.int64, bitcast=True)
    found = ring.to(tl.pointer_type(tl.int64)) + (sequence % _RING) * _WORDS_OF_FOUND
    tl.store(found, total_bits)
    tl.store(found + 1, squares_bits)
    tl.store(found + 2, low_bits)
    tl.store(found + 3, high_bits)
    tl.store(found + 4, digest)
    tl.store(found + 5, negative)
    tl.store(found + 6, sequence)
    tl.store(found + 7, total_bits ^ squares_bits ^ low_bits ^ high_bits ^ digest ^ negative ^ sequence)


@triton.jit
def measure(
    ring: tl.int64, parts: tl.int64, tables: tl.int64, sequence: tl.int64,
    data0: tl.int64, num0: tl.int64, share0: tl.int64,
    data1: tl.int64, num1: tl.int64, share1: tl.int64, first1: tl.int64,
    data2: tl.int64, num2: tl.int64, share2: tl.int64, first2: tl.int64,
    data3: tl.int64, num3: tl.int64, share3: tl.int64, first3: tl.int64,
    size0: tl.int64, size1: tl.int64, size2: tl.int64, size3: tl.int64,
    size4: tl.int64, size5: tl.int64, size6: tl.int64, size7: tl.int64,
    stride0: tl.int64, stride1: tl.int64, stride2: tl.int64, stride3: tl.int64,
    stride4: tl.int64, stride5: tl.int64, stride6: tl.int64, stride7: tl.int64,
    KIND: tl.constexpr, BYTES: tl.constexpr, STATISTICS: tl.constexpr, CRC32: tl.constexpr, XOR64: tl.constexpr,
    SKETCH: tl.constexpr, LAYOUT: tl.constexpr, AXES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Up to four tensors; ``share`` vectors of each go to a block, the first of which is ``first``.

    Jobs that are not there have a ``first`` that no block has. ``WIDE``: indices need 64 bits.
    """
    program = tl.program_id(0).to(tl.int64)
    job = (program >= first1).to(tl.int64) + (program >= first2).to(tl.int64) + (program >= first3).to(tl.int64)
    data = tl.where(job == 0, data0, tl.where(job == 1, data1, tl.where(job == 2, data2, data3)))
    num_elements = tl.where(job == 0, num0, tl.where(job == 1, num1, tl.where(job == 2, num2, num3)))
    share = tl.where(job == 0, share0, tl.where(job == 1, share1, tl.where(job == 2, share2, share3)))
    first = tl.where(job == 0, 0, tl.where(job == 1, first1, tl.where(job == 2, first2, first3)))
    last = tl.where(job == 0, first1, tl.where(job == 1, first2, tl.where(job == 2, first3, tl.num_programs(0))))
    num_blocks = tl.minimum(last, tl.num_programs(0).to(tl.int64)) - first
    block = program - first
    sizes = (size0, size1, size2, size3, size4, size5, size6, size7)
    strides = (stride0, stride1, stride2, stride3, stride4, stride5, stride6, stride7)
    number = sequence + job

    PER_VECTOR: tl.constexpr = 16 // BYTES
    num_vectors = (num_elements + PER_VECTOR - 1) // PER_VECTOR
    num_whole = num_elements // PER_VECTOR
    begin = block * share
    end = tl.minimum(begin + share, num_vectors)
    num_turns = (end - begin + LANES - 1) // LANES
    # The last vector may not be whole; it is in the last turn of the last block, which then comes by itself.
    has_rest = end > num_whole
    num_whole_turns = num_turns - has_rest.to(tl.int64)
    stop = tl.minimum(begin + num_whole_turns * LANES, end)

    lane = tl.arange(0, LANES).to(tl.int64)
    low, high = _nothing(KIND)
    total = tl.zeros((LANES,), tl.float64)
    squares = tl.zeros((LANES,), tl.float64)
    c0 = tl.zeros((LANES,), tl.uint32)
    c1 = tl.zeros((LANES,), tl.uint32)
    c2 = tl.zeros((LANES,), tl.uint32)
    c3 = tl.zeros((LANES,), tl.uint32)
    folded = tl.zeros((LANES,), tl.uint64)
    tables32 = tables.to(tl.pointer_type(tl.uint32))

    # All loads of four turns before the first is added: they take longest. CRC-32 has enough to compute.
    TOGETHER: tl.constexpr = 1 if CRC32 else 4
    for turn in range(0, num_whole_turns, TOGETHER):
        at = begin + turn * LANES + lane
        a = _load(data, at, stop, num_elements, sizes, strides, BYTES, LAYOUT, AXES, WIDE)
        if TOGETHER == 4:
            b = _load(data, at + LANES, stop, num_elements, sizes, strides, BYTES, LAYOUT, AXES, WIDE)
            c = _load(data, at + 2 * LANES, stop, num_elements, sizes, strides, BYTES, LAYOUT, AXES, WIDE)
            d = _load(data, at + 3 * LANES, stop, num_elements, sizes, strides, BYTES, LAYOUT, AXES, WIDE)
        if STATISTICS:
            low, high, total, squares = _tally(low, high, total, squares, a, at, stop, num_elements, KIND, BYTES)
            if TOGETHER == 4:
                low, high, total, squares = _tally(
                    low, high, total, squares, b, at + LANES, stop, num_elements, KIND, BYTES
                )
                low, high, total, squares = _tally(
                    low, high, total, squares, c, at + 2 * LANES, stop, num_elements, KIND, BYTES
                )
                low, high, total, squares = _tally(
                    low, high, total, squares, d, at + 3 * LANES, stop, num_elements, KIND, BYTES
                )
        if XOR64:
            folded ^= _fold(a)
            if TOGETHER == 4:
                folded ^= _fold(b) ^ _fold(c) ^ _fold(d)
        if CRC32:
            c0 = _times_table(tables32 + _STEP, c0) ^ a[0]
            c1 = _times_table(tables32 + _STEP, c1) ^ a[1]
            c2 = _times_table(tables32 + _STEP, c2) ^ a[2]
            c3 = _times_table(tables32 + _STEP, c3) ^ a[3]
    if has_rest:
        at = begin + num_whole_turns * LANES + lane
        r = _gather(data, tl.where(at < end, at, -1), num_elements, sizes, strides, BYTES, LAYOUT, AXES)
        if STATISTICS:
            low, high, total, squares = _tally(low, high, total, squares, r, at, end, num_elements, KIND, BYTES)
        if XOR64:
            folded ^= _fold(r)
        if CRC32:
            c0 = _times_table(tables32 + _STEP, c0) ^ r[0]
            c1 = _times_table(tables32 + _STEP, c1) ^ r[1]
            c2 = _times_table(tables32 + _STEP, c2) ^ r[2]
            c3 = _times_table(tables32 + _STEP, c3) ^ r[3]

    part_total = _add_lanes(total)
    part_squares = _add_lanes(squares)
    part_low = tl.min(low, axis=0)
    part_high = tl.max(high, axis=0)
    digest = number * 0
    if XOR64:
        digest = tl.xor_sum(folded, axis=0).to(tl.int64, bitcast=True)
    if CRC32:
        padded_end = begin + num_turns * LANES
        bits_behind = 8 * (num_elements * BYTES - padded_end * 16) + 32
        digest = _finish_crc(tables32, c0, c1, c2, c3, bits_behind).to(tl.int64)

    if SKETCH:
        last = tl.minimum(end * PER_VECTOR, num_elements)
        part_sums, part_bad = _sketch(data, begin * PER_VECTOR, last, num_elements, sizes, strides, KIND, LAYOUT, AXES)
        sketches = parts.to(tl.pointer_type(tl.int64)) + _PARTS + job * _MAX_BLOCKS * _WORDS_OF_SKETCH

    if num_blocks == 1:
        if SKETCH:
            _publish_sketch(ring, number, part_sums, part_bad)
        _publish(
            data, num_elements, number, ring, sizes, strides, part_total, part_squares, part_low, part_high, digest,
            KIND, BYTES, STATISTICS, LAYOUT, AXES,
        )  # fmt: skip
    else:
        of_job = parts.to(tl.pointer_type(tl.int64)) + job * _MAX_BLOCKS * _WORDS_OF_FOUND
        mine = of_job + block * _WORDS_OF_FOUND
        tl.store(mine.to(tl.pointer_type(tl.float64)), part_total)
        tl.store((mine + 1).to(tl.pointer_type(tl.float64)), part_squares)
        tl.store((mine + 2).to(tl.pointer_type(part_low.dtype)), part_low)
        tl.store((mine + 3).to(tl.pointer_type(part_high.dtype)), part_high)
        tl.store(mine + 4, digest)
        if SKETCH:
            my_sketch = sketches + block * _WORDS_OF_SKETCH
            tl.store(my_sketch.to(tl.pointer_type(tl.float64)) + tl.arange(0, _SUMS), part_sums)
            tl.store(my_sketch + _SUMS, part_bad)
        tl.debug_barrier()
        counter = (parts.to(tl.pointer_type(tl.int64)) + 4 * _MAX_BLOCKS * _WORDS_OF_FOUND + job).to(
            tl.pointer_type(tl.int32)
        )
        if tl.atomic_add(counter, 1) == num_blocks - 1:
            tl.store(counter, 0)  # for the next launch
            all_total = tl.zeros((LANES,), tl.float64)
            all_squares = tl.zeros((LANES,), tl.float64)
            all_low, all_high = _nothing(KIND)
            none_low, none_high = _nothing(KIND)
            all_digest = tl.zeros((LANES,), tl.int64)
            if SKETCH:
                sum_lane = tl.arange(0, _SUMS)
                sketch_sums = tl.zeros((_SUMS,), tl.float64)
                sketch_bad = number * 0
                for i in range(num_blocks):
                    theirs = sketches + i * _WORDS_OF_SKETCH
                    to_add = theirs.to(tl.pointer_type(tl.float64)) + sum_lane
                    sketch_sums += tl.load(to_add, cache_modifier=".cg")
                    sketch_bad += tl.load(theirs + _SUMS, cache_modifier=".cg")
                _publish_sketch(ring, number, sketch_sums, sketch_bad)
            for i in tl.static_range(3):
                other = lane + i * LANES
                theirs = of_job + other * _WORDS_OF_FOUND
                there = other < num_blocks
                sums = theirs.to(tl.pointer_type(tl.float64))
                lows = (theirs + 2).to(tl.pointer_type(part_low.dtype))
                highs = (theirs + 3).to(tl.pointer_type(part_high.dtype))
                low = tl.load(lows, mask=there, cache_modifier=".cg")
                high = tl.load(highs, mask=there, cache_modifier=".cg")
                all_total += tl.load(sums, mask=there, other=0, cache_modifier=".cg")
                all_squares += tl.load(sums + 1, mask=there, other=0, cache_modifier=".cg")
                all_low = tl.minimum(all_low, tl.where(there, low, none_low))
                all_high = tl.maximum(all_high, tl.where(there, high, none_high))
                all_digest ^= tl.load(theirs + 4, mask=there, other=0, cache_modifier=".cg")
            _publish(
                data, num_elements, number, ring, sizes, strides, _add_lanes(all_total), _add_lanes(all_squares),
                tl.min(all_low, axis=0), tl.max(all_high, axis=0), tl.xor_sum(all_digest, axis=0),
                KIND, BYTES, STATISTICS, LAYOUT, AXES,
            )  # fmt: skip
