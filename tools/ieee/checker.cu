// Exact results of floating-point instructions by integer arithmetic, operands to try them on, and the comparison.
//
// check.py compiles this with NVRTC; a C++ compiler takes it too, which is how it is tested without a GPU.
// Nothing here uses an instruction under test: quotients and roots come from integers. Only where an
// approximation is judged by a tolerance are doubles used.

#ifdef __CUDACC__
#define DEVICE __device__ static inline
#else
#include <cmath>
#include <cstring>
#define DEVICE static inline
#endif

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;
typedef unsigned __int128 u128;

enum Type { F32, F64, F16, BF16, TF32, U8 = 8, S8, U16, S16, U32, S32, U64, S64 };
enum Mode { RN, RZ, RM, RP, RNA };
enum Op {
    DIV, RCP, SQRT, FMA, ADD, MUL, CVT, RINT, IDIV, IREM, MIN, MAX,
    DIV_APPROX, DIV_FULL, RCP_APPROX, SQRT_APPROX, RSQRT_APPROX, EX2, LG2, SIN, COS, TANH, RSQRT64
};
enum Verdict { EXACTLY, ANY_NAN, CANONICAL_NAN, WITHIN_ULPS, WITHIN_ERROR, MAYBE_FLUSHED, ANYTHING };

struct Instruction {
    int op, type, source, mode, ftz;  // `type` of the result, `source` of the operands
};

struct Expected {
    int verdict;
    u64 bits;      // EXACTLY, WITHIN_ULPS
    u64 ulps;      // WITHIN_ULPS
    double value;  // WITHIN_ERROR
    double error;
};

struct Format {
    int fraction, exponent;
};

DEVICE Format format_of(int type) {
    Format f;
    f.fraction = type == F64 ? 52 : type == F32 ? 23 : type == BF16 ? 7 : 10;
    f.exponent = type == F64 ? 11 : type == F16 ? 5 : 8;
    return f;
}

DEVICE int bytes_of(int type) {
    return type >= U8 ? 1 << ((type - U8) >> 1) : type == F64 ? 8 : type == F16 || type == BF16 ? 2 : 4;
}

DEVICE bool is_signed(int type) { return type >= U8 && ((type - U8) & 1); }

struct Number {
    bool negative, nan, infinite;
    u64 significand;  // value = significand * 2^exponent
    int exponent;
};

DEVICE int bias_of(Format f) { return (1 << (f.exponent - 1)) - 1; }
DEVICE u64 infinity_of(Format f) { return ((1ull << f.exponent) - 1) << f.fraction; }
DEVICE u64 sign_of(Format f, bool negative) { return (u64)negative << (f.fraction + f.exponent); }

DEVICE Number decode(u64 bits, Format f, bool ftz) {
    Number n;
    u64 magnitude = bits & ((1ull << (f.fraction + f.exponent)) - 1);
    n.negative = bits >> (f.fraction + f.exponent) & 1;
    n.nan = magnitude > infinity_of(f);
    n.infinite = magnitude == infinity_of(f);
    int field = (int)(magnitude >> f.fraction);
    u64 fraction = magnitude & ((1ull << f.fraction) - 1);
    n.exponent = 1 - bias_of(f) - f.fraction + (field ? field - 1 : 0);
    n.significand = field ? fraction | 1ull << f.fraction : ftz ? 0 : fraction;
    return n;
}

DEVICE int width_of(u128 value) {
    int width = 0;
    for (int step = 64; step; step >>= 1)
        if (value >> step) {
            value >>= step;
            width += step;
        }
    return width + (value != 0);
}

DEVICE void normalize(Number& n, Format f) {
    int shift = f.fraction + 1 - width_of(n.significand);
    n.significand <<= shift;
    n.exponent -= shift;
}

// significand * 2^exponent, plus something smaller if `sticky`, as a multiple of 2^place.
DEVICE u128 round_at(u128 significand, int exponent, bool sticky, int place, int mode, bool negative) {
    int shift = place - exponent;
    if (shift <= 0) return significand << -shift;
    u128 kept = 0;
    bool half = false, below = true;
    if (shift < 128) {
        kept = significand >> shift;
        half = (significand >> (shift - 1)) & 1;
        below = (significand & (((u128)1 << (shift - 1)) - 1)) != 0 || sticky;
    } else if (shift == 128) {
        half = (significand >> 127) & 1;
        below = (significand << 1) != 0 || sticky;
    }
    bool up = false;
    if (mode == RN) up = half && (below || (kept & 1));
    if (mode == RNA) up = half;
    if (mode == RM) up = negative && (half || below);
    if (mode == RP) up = !negative && (half || below);
    return kept + up;
}

DEVICE u64 encode(bool negative, u128 significand, int exponent, bool sticky, Format f, int mode, bool ftz) {
    int precision = f.fraction + 1, least = 1 - bias_of(f) - f.fraction;
    int unlimited = exponent + width_of(significand) - precision;
    u64 sign = sign_of(f, negative);
    if (ftz && unlimited < least) {
        bool reaches = unlimited == least - 1 &&
                       round_at(significand, exponent, sticky, unlimited, mode, negative) == (u128)1 << precision;
        if (!reaches) return sign;
    }
    int place = unlimited > least ? unlimited : least;
    u128 kept = round_at(significand, exponent, sticky, place, mode, negative);
    if (kept == (u128)1 << precision) {
        kept >>= 1;
        place++;
    }
    u64 field = kept >> f.fraction ? place - least + 1 : 0;
    if (field >= (1ull << f.exponent) - 1) {
        bool to_infinity = mode == RN || mode == RNA || (mode == RM && negative) || (mode == RP && !negative);
        return sign | (to_infinity ? infinity_of(f) : infinity_of(f) - 1);
    }
    return sign | field << f.fraction | ((u64)kept & ((1ull << f.fraction) - 1));
}

DEVICE Expected exactly(u64 bits) {
    Expected e = {EXACTLY, bits, 0, 0, 0};
    return e;
}

DEVICE Expected nan_of(int type, bool canonical) {
    Expected e = {canonical && type == F32 ? CANONICAL_NAN : ANY_NAN, 0, 0, 0, 0};
    return e;
}

DEVICE Expected quotient(Number a, Number b, const Instruction& in) {
    Format f = format_of(in.type);
    bool negative = a.negative != b.negative, zero_a = !a.nan && !a.infinite && !a.significand;
    bool zero_b = !b.nan && !b.infinite && !b.significand;
    if (a.nan || b.nan || (zero_a && zero_b) || (a.infinite && b.infinite)) return nan_of(in.type, true);
    if (a.infinite || zero_b) return exactly(sign_of(f, negative) | infinity_of(f));
    if (zero_a || b.infinite) return exactly(sign_of(f, negative));
    normalize(a, f);
    normalize(b, f);
    int extra = f.fraction + 4;
    u64 q = a.significand >= b.significand, rest = a.significand - (q ? b.significand : 0);
    for (int place = 0; place < extra; place++) {  // long division
        rest <<= 1;
        bool fits = rest >= b.significand;
        q = q << 1 | fits;
        rest -= fits ? b.significand : 0;
    }
    bool sticky = rest != 0;
    return exactly(encode(negative, q, a.exponent - b.exponent - extra, sticky, f, in.mode, in.ftz));
}

DEVICE u64 integer_root(u128 value) {
    u64 root = 0;
    for (int bit = 57; bit >= 0; bit--) {
        u64 candidate = root | 1ull << bit;
        if ((u128)candidate * candidate <= value) root = candidate;
    }
    return root;
}

DEVICE Expected square_root(Number a, const Instruction& in) {
    Format f = format_of(in.type);
    if (a.nan) return nan_of(in.type, true);
    if (!a.infinite && !a.significand) return exactly(sign_of(f, a.negative));
    if (a.negative) return nan_of(in.type, true);
    if (a.infinite) return exactly(infinity_of(f));
    normalize(a, f);
    int shift = f.fraction + 6;
    if ((a.exponent - shift) & 1) shift++;
    u128 radicand = (u128)a.significand << shift;
    u64 root = integer_root(radicand);
    return exactly(encode(false, root, (a.exponent - shift) / 2, (u128)root * root != radicand, f, in.mode, in.ftz));
}

DEVICE Expected fused(Number a, Number b, Number c, const Instruction& in) {
    Format f = format_of(in.type);
    bool negative = a.negative != b.negative;
    bool infinite = a.infinite || b.infinite, zero = (!a.infinite && !a.significand) || (!b.infinite && !b.significand);
    if (a.nan || b.nan || c.nan || (infinite && zero) || (infinite && c.infinite && negative != c.negative))
        return nan_of(in.type, true);
    if (infinite) return exactly(sign_of(f, negative) | infinity_of(f));
    if (c.infinite) return exactly(sign_of(f, c.negative) | infinity_of(f));
    u128 x = (u128)a.significand * b.significand, y = c.significand;
    int ex = a.exponent + b.exponent, ey = c.exponent;
    bool nx = negative, ny = c.negative;
    if (!x && !y) return exactly(sign_of(f, nx == ny ? nx : in.mode == RM));
    if (!x || !y) {
        x = x ? x : (nx = ny, ex = ey, y);
        y = 0;
    }
    // Both flush left below bit 126; the smaller one then moves right, past what a difference can cancel.
    int sx = 126 - width_of(x), sy = y ? 126 - width_of(y) : 0;
    x <<= sx, ex -= sx, y <<= sy, ey = y ? ey - sy : ex;
    if (ex < ey || (ex == ey && x < y)) {
        u128 t = x; x = y; y = t;
        int e = ex; ex = ey; ey = e;
        bool n = nx; nx = ny; ny = n;
    }
    int shift = ex - ey;
    bool sticky = shift > 127 || (shift && (y & (((u128)1 << shift) - 1)));
    y = shift > 127 ? 0 : y >> shift;
    u128 sum = nx == ny ? x + y : x - y - sticky;
    if (!sum && !sticky) return exactly(sign_of(f, in.mode == RM));
    Expected e = exactly(encode(nx, sum, ex, sticky, f, in.mode, in.ftz));
    // Rounded up to the least normal number: whether that is flushed is not said.
    if (in.ftz && e.bits << 1 && !encode(false, sum, ex, sticky, f, RZ, true)) e.verdict = MAYBE_FLUSHED;
    return e;
}

DEVICE i64 extend(u64 bits, int type) {
    int unused = 64 - 8 * bytes_of(type);
    return is_signed(type) ? (i64)(bits << unused) >> unused : (i64)(bits << unused >> unused);
}

DEVICE Expected to_integer(Number a, const Instruction& in) {
    int width = 8 * bytes_of(in.type);
    u64 mask = ~0ull >> (64 - width);
    if (a.nan) return exactly(in.source == F64 || width == 64 ? 1ull << (width - 1) : 0);
    u64 most = is_signed(in.type) ? mask >> 1 : mask;
    u64 least = is_signed(in.type) ? most + 1 : 0;  // magnitude of the least number
    u64 limit = a.negative ? least : most;
    u128 value = 0;
    if (a.infinite || (a.significand && a.exponent > 64)) value = (u128)1 << 100;
    else if (a.significand) value = round_at(a.significand, a.exponent, false, 0, in.mode, a.negative);
    u64 magnitude = value > limit ? limit : (u64)value;
    return exactly((a.negative ? 0 - magnitude : magnitude) & mask);
}

DEVICE Expected convert(u64 bits, const Instruction& in) {
    if (in.source >= U8) {
        i64 value = extend(bits, in.source);
        bool negative = is_signed(in.source) && value < 0;
        u64 magnitude = negative ? 0 - (u64)value : (u64)value;
        if (!magnitude) return exactly(0);
        return exactly(encode(negative, magnitude, 0, false, format_of(in.type), in.mode, false));
    }
    Number a = decode(bits, format_of(in.source), in.ftz && in.source == F32);
    if (in.type >= U8) return to_integer(a, in);
    Format f = format_of(in.type);
    // 2^-126 - 2^-150 away from zero: 24 bits hold it, but as a subnormal it becomes normal; nobody says which counts.
    if (in.ftz && in.source == F64 && in.mode >= RM && (bits & ~(1ull << 63)) == 0x380fffffe0000000ull) {
        Expected e = {ANYTHING, 0, 0, 0, 0};
        return e;
    }
    // ptxas 13.0 cuts such a NaN down to an infinity.
    if (a.nan && in.type == TF32 && !(bits & 0x7fe000)) {
        Expected e = {ANYTHING, 0, 0, 0, 0};
        return e;
    }
    if (a.nan) return nan_of(in.type, false);
    u64 result;
    if (a.infinite) result = sign_of(f, a.negative) | infinity_of(f);
    else if (!a.significand) result = sign_of(f, a.negative);
    else result = encode(a.negative, a.significand, a.exponent, false, f, in.mode, in.ftz && in.type == F32);
    return exactly(in.type == TF32 ? result << 13 : result);
}

DEVICE Expected round_to_integer(u64 bits, const Instruction& in) {
    Format f = format_of(in.type);
    Number a = decode(bits, f, in.ftz);
    if (a.nan) return nan_of(in.type, false);
    if (a.infinite || a.exponent >= 0) return exactly(bits);
    u128 value = a.significand ? round_at(a.significand, a.exponent, false, 0, in.mode, a.negative) : 0;
    if (!value) return exactly(sign_of(f, a.negative));
    return exactly(encode(a.negative, value, 0, false, f, RN, false));
}

DEVICE Expected integer_quotient(u64 x, u64 y, const Instruction& in) {
    u64 mask = ~0ull >> (64 - 8 * bytes_of(in.type));
    i64 a = extend(x, in.type), b = extend(y, in.type);
    if (!b) return exactly(mask);
    bool na = is_signed(in.type) && a < 0, nb = is_signed(in.type) && b < 0;
    u64 ma = na ? 0 - (u64)a : (u64)a, mb = nb ? 0 - (u64)b : (u64)b;
    u64 result = in.op == IDIV ? ma / mb : ma % mb;
    bool negative = in.op == IDIV ? na != nb : na;
    return exactly((negative ? 0 - result : result) & mask);
}

DEVICE Expected extreme(u64 x, u64 y, const Instruction& in) {
    Format f = format_of(in.type);
    Number a = decode(x, f, false), b = decode(y, f, false);
    if (a.nan && b.nan) return nan_of(in.type, true);
    if (a.nan || b.nan) return exactly(a.nan ? y : x);
    u64 top = sign_of(f, true);
    // Bits of negative numbers reversed are in numeric order.
    u64 kx = x & top ? ~x & (top | (top - 1)) : x | top, ky = y & top ? ~y & (top | (top - 1)) : y | top;
    return exactly((kx < ky) == (in.op == MIN) ? x : y);
}

#ifdef __CUDACC__
DEVICE float as_float(u64 bits) { return __uint_as_float((u32)bits); }
DEVICE double as_double(u64 bits) { return __longlong_as_double((i64)bits); }
DEVICE u64 bits_of(double value) { return (u64)__double_as_longlong(value); }
#else
DEVICE float as_float(u64 bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

DEVICE double as_double(u64 bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

DEVICE u64 bits_of(double value) {
    u64 bits;
    memcpy(&bits, &value, 8);
    return bits;
}
#endif

DEVICE Expected near(u64 bits, int type, u64 ulps) {
    Format f = format_of(type);
    if (decode(bits, f, false).nan) return nan_of(type, true);
    Expected e = {WITHIN_ULPS, bits, ulps, 0, 0};
    return e;
}

// The double that an f32 is. Subnormal ones by arithmetic on doubles: whoever compiles this may flush them otherwise.
DEVICE double widen(u64 bits) {
    if (bits & 0x7f800000) return as_float(bits);
    double magnitude = (double)(bits & 0x7fffff) * 0x1p-149;
    return bits >> 31 & 1 ? -magnitude : magnitude;
}

// The f32 next to a double, by integers; below the normal range flushed if asked.
DEVICE u64 to_single(double value, int ftz) {
    Instruction in = {CVT, F32, F64, RN, ftz};
    Expected e = convert(bits_of(value), in);
    return e.verdict == EXACTLY ? e.bits : 0x7fffffff;
}

DEVICE Expected within(double value, double error) {
    if (value != value) return nan_of(F32, true);
    bool infinite = fabs(value) > 3.402824e38, largest = !infinite && fabs(value) > 3.402822e38;
    if (infinite) value = value > 0 ? as_float(0x7f800000) : as_float(0xff800000);
    Expected e = {largest ? ANYTHING : WITHIN_ERROR, 0, 0, value, infinite ? 0 : error};
    return e;
}

DEVICE Expected approximation(u64 x, u64 y, const Instruction& in) {
    if (in.op == RSQRT64) {
        double a = as_double(x);
        if (a != a || a < 0) return nan_of(F64, false);
        return a == 0 || a > 1.7976931348623157e308 ? exactly(bits_of(1 / a)) : near(bits_of(1 / sqrt(a)), F64, 4);
    }
    u32 sub = 0x7f800000;
    u64 fx = in.ftz && !(x & sub) ? x & 0x80000000 : x, fy = in.ftz && !(y & sub) ? y & 0x80000000 : y;
    double a = widen(fx), b = widen(fy), tiny = in.ftz ? 1.2e-38 : 1.5e-45;
    Expected anything = {ANYTHING, 0, 0, 0, 0};
    switch (in.op) {
        case DIV_APPROX: {
            u32 magnitude = (u32)y & 0x7fffffff;
            if (magnitude > 0x7e800000 && magnitude < 0x7f800000 && a == a) {
                if (a - a != 0) return nan_of(F32, true);
                return exactly((x ^ y) & 0x80000000);
            }
        }  // fall through
        case DIV_FULL: {
            u64 q = to_single(a / b, 0);
            u32 magnitude = (u32)q & 0x7fffffff;
            if (in.ftz && magnitude > 0x007ffff0 && magnitude < 0x00800010) return anything;
            return near(in.ftz && !(q & sub) ? q & 0x80000000 : q, F32, 2);
        }
        case RCP_APPROX: {
            u64 q = to_single(1 / a, 0);
            u32 magnitude = (u32)q & 0x7fffffff;
            if (in.ftz && magnitude > 0x007ffff0 && magnitude < 0x00800010) return anything;
            return near(in.ftz && !(q & sub) ? q & 0x80000000 : q, F32, 1);
        }
        case SQRT_APPROX: return near(to_single(sqrt(a), in.ftz), F32, 2);
        case RSQRT_APPROX: return near(to_single(1 / sqrt(a), in.ftz), F32, 3);
        case EX2: return within(exp2(a), exp2(a) * 4.8e-7 + tiny);
        case LG2: {
            double value = log2(a);
            return within(value, a > 0.5 && a < 2 ? 2.4e-7 : fabs(value) * 2.4e-7);
        }
        case SIN: return fabs(a) <= 6.28318 ? within(sin(a), 1e-6) : anything;
        case COS: return fabs(a) <= 6.28318 ? within(cos(a), 1e-6) : anything;
        default: return within(tanh(a), fabs(tanh(a)) * 6e-4 + 1.5e-45);
    }
}

DEVICE Expected expected(const Instruction& in, u64 a, u64 b, u64 c) {
    Format f = format_of(in.type);
    Number one = decode((u64)bias_of(f) << f.fraction, f, false);
    Number x = decode(a, f, in.ftz), y = decode(b, f, in.ftz);
    switch (in.op) {
        case DIV: return quotient(x, y, in);
        case RCP: return quotient(one, x, in);
        case SQRT: return square_root(x, in);
        case FMA: return fused(x, y, decode(c, f, in.ftz), in);
        case ADD: return fused(x, one, y, in);
        case MUL: return fused(x, y, decode(sign_of(f, x.negative != y.negative), f, false), in);
        case CVT: return convert(a, in);
        case RINT: return round_to_integer(a, in);
        case IDIV:
        case IREM: return integer_quotient(a, b, in);
        case MIN:
        case MAX: return extreme(a, b, in);
        default: return approximation(a, b, in);
    }
}

DEVICE bool accepted(const Instruction& in, u64 result, const Expected& e) {
    Format f = format_of(in.type);
    bool nan = in.type < U8 && decode(in.type == TF32 ? result >> 13 : result, f, false).nan;
    switch (e.verdict) {
        case EXACTLY: return result == e.bits;
        case MAYBE_FLUSHED: return result == e.bits || result == (e.bits & sign_of(f, true));
        case ANY_NAN: return nan;
        case CANONICAL_NAN: return result == 0x7fffffff;
        case WITHIN_ULPS: {
            u64 distance = result > e.bits ? result - e.bits : e.bits - result;
            return !nan && distance <= e.ulps;
        }
        case WITHIN_ERROR: {
            double value = widen(result);
            return value == e.value || fabs(value - e.value) <= e.error;
        }
        default: return true;
    }
}

// ---- operands ----

DEVICE u64 hash(u64 value) {
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ value >> 27) * 0x94d049bb133111ebull;
    return value ^ value >> 31;
}

DEVICE u64 awkward_fraction(u64 h, int bits) {
    u64 full = (1ull << bits) - 1;
    switch (h % 12) {
        case 0: return 0;
        case 1: return 1;
        case 2: return full;
        case 3: return full - 1;
        case 4: return full / 2;
        case 5: return full / 2 + 1;
        case 6: return full / 3;
        case 7: return 1ull << (h >> 8) % bits;
        case 8: return full ^ 1ull << (h >> 8) % bits;
        case 9: return (h >> 8) % 16;
        case 10: return full - (h >> 8) % 16;
        default: return (h >> 8) & full;
    }
}

DEVICE u64 random_float(u64 h, u64 g, Format f) {
    u64 fraction_mask = (1ull << f.fraction) - 1, exponents = 1ull << f.exponent;
    u64 sign = sign_of(f, h & 1), fraction = g & fraction_mask, exponent = (h >> 8) % exponents;
    switch (h >> 1 & 7) {
        case 0: exponent = 0; break;
        case 1: exponent = (h >> 8) % (f.fraction + 3); break;
        case 2: exponent = exponents - 1 - (h >> 8) % 4; break;
        case 3: fraction &= ~(fraction_mask >> (h >> 32) % f.fraction); break;
        case 4: fraction |= fraction_mask >> (h >> 32) % f.fraction; break;
        case 5: exponent = exponents / 2 - 8 + (h >> 8) % 16; break;
    }
    return sign | exponent << f.fraction | fraction;
}

// A dividend whose quotient by `divisor` is next to a number or a midpoint.
DEVICE u64 boundary_dividend(u64 h, u64 divisor, Format f) {
    u64 significand = (divisor & ((1ull << f.fraction) - 1)) | 1ull << f.fraction;
    u64 q = (hash(h) & ((1ull << (f.fraction + 2)) - 1)) | 1ull << (f.fraction + 1) | 1;
    if (h & 1) q &= ~((1ull << (h >> 3) % f.fraction) - 1);
    u128 product = (u128)significand * q;
    int excess = width_of(product) - f.fraction - 1;
    u64 dividend = (u64)(product >> excess) + (h >> 1 & 1);
    u64 field = divisor >> f.fraction & ((1ull << f.exponent) - 1), exponents = (1ull << f.exponent) - 2;
    // Half of the quotients end around the bottom of the normal range.
    u64 exponent = h >> 2 & 1 ? field - 1 + (h >> 40) % 3 : (field + exponents / 2 + 3 - (h >> 40) % (f.fraction + 6));
    exponent = exponent % exponents + 1;
    return sign_of(f, h >> 60 & 1) | exponent << f.fraction | (dividend & ((1ull << f.fraction) - 1));
}

DEVICE u64 boundary_square(u64 h, Format f) {
    u64 root = (hash(h) & ((1ull << (f.fraction + 1)) - 1)) | 1ull << (f.fraction + 1);
    u128 square = (u128)root * root;
    u64 significand = (u64)(square >> (width_of(square) - f.fraction - 1)) + h % 3 - 1;
    u64 exponent = (h >> 8) % ((1ull << f.exponent) - 1);
    return exponent << f.fraction | (significand & ((1ull << f.fraction) - 1));
}

DEVICE u64 random_integer(u64 h, u64 g, int bytes) {
    int length = (h >> 8) % (8 * bytes + 1);
    u64 power = length == 64 ? 0 : 1ull << length;
    u64 value = h & 3 ? g & (length == 64 ? ~0ull : power - 1) : power + (h >> 32) % 5 - 2;
    return h & 16 ? 0 - value : value;
}

// The operands of case number `index`. Where all values of a unary operand are tried, the number is the operand.
DEVICE void operands(const Instruction& in, int exhaustive, u64 seed, u64 index, u64* a, u64* b, u64* c) {
    *a = index, *b = 0, *c = 0;
    if (exhaustive) return;
    u64 h = hash(seed + index * 4), g = hash(h + 1), k = hash(h + 2), m = hash(h + 3);
    if (in.source >= U8) {
        *b = random_integer(k, m, bytes_of(in.source));
        *a = random_integer(h, g, bytes_of(in.source));
        if (in.op >= IDIV && (m & 1)) *a = *a * *b + g % 3 - 1;
        return;
    }
    Format f = format_of(in.source);
    u64 exponents = 1ull << f.exponent;
    *a = random_float(h, g, f), *b = random_float(k, m, f), *c = random_float(hash(k), hash(m), f);
    if (index < 4 * exponents * exponents) {  // every pair of exponents four times
        *a = sign_of(f, h & 1) | (index % exponents) << f.fraction | awkward_fraction(g, f.fraction);
        *b = sign_of(f, k & 1) | (index / exponents % exponents) << f.fraction | awkward_fraction(m, f.fraction);
    } else if (in.op == SQRT) {
        if (index & 1) *a = boundary_square(h, f);
    } else if (in.op == DIV || in.op == RCP) {
        if (!(m & 15)) *b |= (1ull << f.fraction) - 1;  // significands of all ones
        if (index & 1) *a = boundary_dividend(h, *b, f);
    } else if (in.op == FMA && (index & 3)) {
        // Exponents near each other; and addends that cancel the product but for a few places.
        u64 middle = exponents / 2 - 1, mask = ~infinity_of(f);
        u64 ex = middle - 20 + (h >> 20) % 40, ey = middle - 20 + (k >> 20) % 40;
        *a = (*a & mask) | ex << f.fraction, *b = (*b & mask) | ey << f.fraction;
        u64 ez = ex + ey - middle + (g >> 20) % (2 * f.fraction + 8) - f.fraction - 4;
        *c = (*c & mask) | (ez % exponents) << f.fraction;
        if ((index & 3) == 3) {
            Instruction product = {MUL, in.type, in.type, RN, 0};
            *c = (expected(product, *a, *b, 0).bits ^ sign_of(f, true)) + m % 5 - 2;
        }
        if (m & 32) {  // down to where products and sums are subnormal
            u64 drop = (m >> 8) % (middle - 25);
            *a -= drop << f.fraction;
            u64 field = *c >> f.fraction & (exponents - 1);
            *c -= (field > drop ? drop : field) << f.fraction;
        }
    }
}

#ifdef __CUDACC__

DEVICE u64 load(const void* memory, u64 index, int bytes) {
    switch (bytes) {
        case 1: return ((const unsigned char*)memory)[index];
        case 2: return ((const unsigned short*)memory)[index];
        case 4: return ((const u32*)memory)[index];
        default: return ((const u64*)memory)[index];
    }
}

DEVICE void store(void* memory, u64 index, int bytes, u64 value) {
    switch (bytes) {
        case 1: ((unsigned char*)memory)[index] = value; break;
        case 2: ((unsigned short*)memory)[index] = value; break;
        case 4: ((u32*)memory)[index] = value; break;
        default: ((u64*)memory)[index] = value;
    }
}

#define EACH(i, n) for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)

extern "C" __global__ void make_operands(int op, int type, int source, int mode, int ftz, int count, int exhaustive, u64 seed,
                                         u64 first, u64 n, void* a, void* b, void* c) {
    Instruction in = {op, type, source, mode, ftz};
    int bytes = bytes_of(source);
    EACH(i, n) {
        u64 x, y, z;
        operands(in, exhaustive, seed, first + i, &x, &y, &z);
        store(a, i, bytes, x);
        if (count > 1) store(b, i, bytes, y);
        if (count > 2) store(c, i, bytes, z);
    }
}

// wrong[0] counts; wrong[1 + 5k ...] are operands, result and expected bits of the first few.
extern "C" __global__ void compare(int op, int type, int source, int mode, int ftz, int count, u64 n, const void* a, const void* b,
                                   const void* c, const void* result, u64* wrong) {
    Instruction in = {op, type, source, mode, ftz};
    int bytes = bytes_of(source), result_bytes = bytes_of(type);
    EACH(i, n) {
        u64 x = load(a, i, bytes), y = count > 1 ? load(b, i, bytes) : 0, z = count > 2 ? load(c, i, bytes) : 0;
        u64 r = load(result, i, result_bytes);
        Expected e = expected(in, x, y, z);
        if (!accepted(in, r, e)) {
            u64 place = atomicAdd(wrong, 1ull);
            if (place < 3) {
                u64* example = wrong + 1 + 5 * place;
                example[0] = x, example[1] = y, example[2] = z, example[3] = r;
                example[4] = e.verdict == WITHIN_ERROR ? to_single(e.value, 0) : e.bits;
            }
        }
    }
}

// What is expected, for comparing this checker with another.
extern "C" __global__ void tell(int op, int type, int source, int mode, int ftz, u64 n, const u64* a, const u64* b, const u64* c,
                                u64* bits, int* verdict) {
    Instruction in = {op, type, source, mode, ftz};
    EACH(i, n) {
        Expected e = expected(in, a[i], b[i], c[i]);
        bits[i] = e.bits;
        verdict[i] = e.verdict;
    }
}

#else

extern "C" void tell(int op, int type, int source, int mode, int ftz, u64 n, const u64* a, const u64* b, const u64* c, u64* bits,
                     int* verdict) {
    Instruction in = {op, type, source, mode, ftz};
    for (u64 i = 0; i < n; i++) {
        Expected e = expected(in, a[i], b[i], c[i]);
        bits[i] = e.bits;
        verdict[i] = e.verdict;
    }
}

extern "C" void make_operands(int op, int type, int source, int mode, int ftz, int exhaustive, u64 seed, u64 first, u64 n, u64* a,
                              u64* b, u64* c) {
    Instruction in = {op, type, source, mode, ftz};
    u64 mask = ~0ull >> (64 - 8 * bytes_of(source));
    for (u64 i = 0; i < n; i++) {
        operands(in, exhaustive, seed, first + i, a + i, b + i, c + i);
        a[i] &= mask, b[i] &= mask, c[i] &= mask;
    }
}

extern "C" int accept(int op, int type, int source, int mode, int ftz, u64 a, u64 b, u64 c, u64 result) {
    Instruction in = {op, type, source, mode, ftz};
    return accepted(in, result, expected(in, a, b, c));
}

#endif
