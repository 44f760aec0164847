"""Small messages that together use all that a declaration can say, and their bytes.

The bytes are written out by hand, after the protocol guide.
"""

from ottla.wire.schema import (
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    UInt16,
    UInt32,
    Uuid,
    at,
    message,
    struct,
)

SOME_UUID = bytes(range(16))


@message(versions="0")
class Numbers:
    flag: Bool
    int8: Int8
    int16: Int16
    uint16: UInt16
    int32: Int32
    uint32: UInt32
    int64: Int64
    float64: Float64
    uuid: Uuid


@message(versions="0-1", flexible="1+")
class Sized:
    text: String | None
    data: Bytes | None
    records: Records | None
    numbers: tuple[Int32, ...] | None


@message(versions="0-1", flexible="1+")
class Strict:
    text: String
    data: Bytes = b""
    records: Records = b""
    texts: tuple[String, ...] = ()


@struct
class Point:
    x: Int8
    y: Int8 = 0


@message(versions="0", flexible="0+")
class Nested:
    required: Point
    optional: Point | None = None
    path: tuple[Point, ...] = ()


CENTER = Point(x=0, y=0)


@message(versions="0", flexible="0+")
class Tagged:
    first: Int8 = 0
    text: String | None = at("0+", default="", tag=0)
    point: Point = at("0+", default=CENTER, tag=2)
    records: Records = at("0+", default=b"", tag=3)


@message(versions="0-2")
class Evolving:
    kept: Int8
    sacred: Int32 = at("1+", default=-1)
    trivial: String = at("2+", default="none", ignorable=True)


@message(versions="0")
class Empty:
    pass


ORDINARY = Numbers(
    flag=True,
    int8=-2,
    int16=-3,
    uint16=0xFFFD,
    int32=-4,
    uint32=0xFFFF_FFFC,
    int64=-5,
    float64=1.5,
    uuid=SOME_UUID,
)
ORDINARY_BYTES = bytes.fromhex(
    "01  fe  fffd  fffd  fffffffc  fffffffc  fffffffffffffffb  3ff8000000000000"
    "000102030405060708090a0b0c0d0e0f"
)

SIZED = Sized(text="é!", data=b"ab", records=b"xyz", numbers=(1, -1))
LONG_LENGTHS = "0003 c3a921  00000002 6162  00000003 78797a  00000002 00000001 ffffffff"
COMPACT_LENGTHS = "04 c3a921  03 6162  04 78797a  03 00000001 ffffffff  00"
NOTHING = Sized(text=None, data=None, records=None, numbers=None)
LONG_NULLS = "ffff ffffffff ffffffff ffffffff"
COMPACT_NULLS = "00 00 00 00 00"
