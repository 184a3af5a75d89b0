"""What the rules of docs/transcript.md are made of: hashes, groups, trees, vectors, masks, ranks. Section numbers are
that page's. Plain arithmetic on public data: nothing here runs in constant time.
"""

import hashlib
import hmac
import itertools
import struct
from fractions import Fraction

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

# --- 1. Conventions -----------------------------------------------------------------------------------------------


def H(data):
    return hashlib.sha256(data).digest()


def L(name):
    text = b"veilsum/v1/" + name.encode()
    return bytes([len(text)]) + text


def HL(name, *parts):
    state = hashlib.sha256(L(name))
    for part in parts:
        state.update(u64(len(part)))
        state.update(part)
    return state.digest()


u8, u16, u32, u64 = (struct.Struct("<" + width).pack for width in "BHIQ")


def hkdf(salt, ikm, info):
    prk = hmac.new(salt, ikm, hashlib.sha256).digest()
    return hmac.new(prk, info + b"\x01", hashlib.sha256).digest()


# --- Groups: edwards25519 (RFC 8032) and ristretto255 (RFC 9496) ------------------------------------------------------

P25519 = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
CURVE_D = -121665 * pow(121666, -1, P25519) % P25519
SQRT_M1 = pow(2, (P25519 - 1) // 4, P25519)
IDENTITY = (0, 1, 1, 0)


def add(p, q):
    x1, y1, z1, t1 = p
    x2, y2, z2, t2 = q
    a = (y1 - x1) * (y2 - x2) % P25519
    b = (y1 + x1) * (y2 + x2) % P25519
    c = 2 * t1 * t2 * CURVE_D % P25519
    d = 2 * z1 * z2 % P25519
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P25519, g * h % P25519, f * g % P25519, e * h % P25519)


def mul(n, p):
    out = IDENTITY
    while n:
        if n & 1:
            out = add(out, p)
        p = add(p, p)
        n >>= 1
    return out


def negate(p):
    return (-p[0] % P25519, p[1], p[2], -p[3] % P25519)


def sqrt_ratio(u, v):
    """Whether u/v is a square, and the nonnegative root of u/v or of i·u/v."""
    r = u * pow(v, 3, P25519) * pow(u * pow(v, 7, P25519), (P25519 - 5) // 8, P25519) % P25519
    check = v * r * r % P25519
    correct, flipped = check == u % P25519, check == -u % P25519
    flipped_i = check == -u * SQRT_M1 % P25519
    if flipped or flipped_i:
        r = r * SQRT_M1 % P25519
    if r & 1:
        r = -r % P25519
    return correct or flipped, r


INVSQRT_A_MINUS_D = sqrt_ratio(1, (-1 - CURVE_D) % P25519)[1]


def decode_point(data):
    """A ristretto255 element that is not the identity, or None."""
    s = int.from_bytes(data, "little")
    if s >= P25519 or s & 1:
        return None
    ss = s * s % P25519
    u1, u2 = (1 - ss) % P25519, (1 + ss) % P25519
    u2_sqr = u2 * u2 % P25519
    v = (-(CURVE_D * u1 * u1) - u2_sqr) % P25519
    square, invsqrt = sqrt_ratio(1, v * u2_sqr % P25519)
    den_x = invsqrt * u2 % P25519
    den_y = invsqrt * den_x * v % P25519
    x = 2 * s * den_x % P25519
    if x & 1:
        x = -x % P25519
    y = u1 * den_y % P25519
    t = x * y % P25519
    if not square or t & 1 or y == 0:
        return None
    point = (x, y, 1, t)
    return None if encode_point(point) == bytes(32) else point


def encode_point(p):
    x0, y0, z0, t0 = p
    u1 = (z0 + y0) * (z0 - y0) % P25519
    u2 = x0 * y0 % P25519
    _, invsqrt = sqrt_ratio(1, u1 * u2 * u2 % P25519)
    den1, den2 = invsqrt * u1 % P25519, invsqrt * u2 % P25519
    z_inv = den1 * den2 * t0 % P25519
    if t0 * z_inv % P25519 & 1:
        x, y = y0 * SQRT_M1 % P25519, x0 * SQRT_M1 % P25519
        den = den1 * INVSQRT_A_MINUS_D % P25519
    else:
        x, y, den = x0, y0, den2
    if x * z_inv % P25519 & 1:
        y = -y % P25519
    s = den * (z0 - y) % P25519
    if s & 1:
        s = -s % P25519
    return s.to_bytes(32, "little")


def edwards(data):
    """An edwards25519 point of canonical bytes, or None."""
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    if y >= P25519:
        return None
    square, x = sqrt_ratio((y * y - 1) % P25519, (CURVE_D * y * y + 1) % P25519)
    if not square or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = -x % P25519
    return (x, y, 1, x * y % P25519)


BASE = edwards((4 * pow(5, -1, P25519) % P25519).to_bytes(32, "little"))


def valid_key(data):
    point = edwards(data)
    if point is None:
        return False
    x, y, z, _ = mul(8, point)
    return not (x == 0 and y == z)


def signed(key, message, signature):
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        return True
    except (InvalidSignature, ValueError):
        return False


def scalar(data):
    number = int.from_bytes(data, "little")
    return number if number < ORDER else None


def interpolate(shares):
    """The value at 0 of the polynomial through (abscissa, value)."""
    total = 0
    for i, (xi, yi) in enumerate(shares):
        top = bottom = 1
        for j, (xj, _) in enumerate(shares):
            if i != j:
                top, bottom = top * xj % ORDER, bottom * (xj - xi) % ORDER
        total += yi * top * pow(bottom, -1, ORDER)
    return total % ORDER


# --- Merkle trees ---------------------------------------------------------------------------------------------------


def tree_root(leaves):
    """RFC 6962; from complete subtrees, so that it is linear."""
    if not leaves:
        return H(b"")
    peaks = []
    for leaf in leaves:
        peaks.append((1, leaf))
        while len(peaks) > 1 and peaks[-1][0] == peaks[-2][0]:
            (n, left), (_, right) = peaks[-2:]
            peaks[-2:] = [(2 * n, H(b"\1" + left + right))]
    root = peaks.pop()[1]
    while peaks:
        root = H(b"\1" + peaks.pop()[1] + root)
    return root


def included(leaf, index, size, proof, root):
    """RFC 9162, 2.1.3.2."""
    if index >= size:
        return False
    fn, sn, r = index, size - 1, leaf
    for p in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            r = H(b"\1" + p + r)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = H(b"\1" + r + p)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and r == root


# --- 6. Vectors -----------------------------------------------------------------------------------------------------


def packed_length(entries, bits):
    return (entries * bits + 7) // 8


def unpack(data, entries, bits):
    number = int.from_bytes(data, "little")
    mask = (1 << bits) - 1
    words = []
    for start in range(0, entries, 512):
        # Stretch by stretch: shifting the whole number for every entry would be quadratic.
        stretch = number >> start * bits & (1 << 512 * bits) - 1
        for i in range(min(512, entries - start)):
            words.append(stretch >> i * bits & mask)
    return words, number >> entries * bits == 0


def pack(words, bits):
    out = bytearray()
    held = count = 0
    for word in words:
        held |= word << count
        count += bits
        while count >= 8:
            out.append(held & 255)
            held, count = held >> 8, count - 8
    if count:
        out.append(held)
    return bytes(out)


def chunk_leaves(data, entries, bits):
    per = 65536 // bits * 8
    leaves, at = [], 0
    for i, start in enumerate(range(0, entries, per)):
        size = packed_length(min(per, entries - start), bits)
        leaves.append(HL("chunk-leaf", u64(i), data[at : at + size]))
        at += size
    return leaves


def chunk_root(data, entries, bits):
    leaves = chunk_leaves(data, entries, bits)

    def top(nodes):
        if len(nodes) == 1:
            return nodes[0]
        split = 1 << (len(nodes) - 1).bit_length() - 1
        return HL("chunk-node", top(nodes[:split]), top(nodes[split:]))

    return HL("chunk-root", u64(len(leaves)), top(leaves))


def mask_words(seed, count):
    counter, rest = int.from_bytes(seed[16:24], "little"), seed[24:]
    blocks = b"".join(u64((counter + i) % 2**64) + rest for i in range((count + 3) // 4))
    stream = Cipher(algorithms.AES(seed[:16]), modes.ECB()).encryptor().update(blocks)
    return struct.unpack("<%dI" % count, stream[: 4 * count])


def model_digest(data):
    return HL("model", u64(len(data) // 4), data)


def successor(model, words, contributors, policy):
    """Section 6, in IEEE double, rounded once."""
    weight = words[-1]
    if weight == 0 or not contributors <= weight <= policy.max_weight * contributors:
        return model
    step = float(policy.range_micros) / 1e6 / float((1 << policy.value_bits - 1) - 1)
    unit = step * float(policy.max_weight) / float(weight)
    out = []
    for old, word in zip(struct.unpack("<%df" % (len(model) // 4), model), words):
        signed_word = word - (1 << policy.bits) if word >> policy.bits - 1 else word
        new = old + float(signed_word) * unit
        try:
            out.append(struct.pack("<f", new))
        except OverflowError:
            out.append(struct.pack("<f", float("inf") if new > 0 else float("-inf")))
    return b"".join(out)


# --- 9. The disclosure rule -----------------------------------------------------------------------------------------


def rank(rows):
    rows, have = [[Fraction(x) for x in row] for row in rows], 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(have, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[have], rows[pivot] = rows[pivot], rows[have]
        for i in range(len(rows)):
            if i != have and rows[i][column]:
                factor = rows[i][column] / rows[have][column]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[have])]
        have += 1
    return have


def rule_holds(clusters, clients, orgs, crowd, crowd_orgs):
    clients = sorted(clients)
    rows = [[int(c in members) for c in clients] for members in clusters]
    full = rank(rows)

    def survives(gone):
        keep = [i for i, c in enumerate(clients) if c not in gone]
        return rank([[row[i] for i in keep] for row in rows]) == full

    few = min(max(crowd - 1, 0), len(clients))
    # Who is not enrolled has no organisation: they count as one.
    names = list({orgs.get(c) for c in clients})
    few_orgs = min(max(crowd_orgs - 1, 0), len(names))
    return all(survives(set(gone)) for gone in itertools.combinations(clients, few)) and all(
        survives({c for c in clients if orgs.get(c) in gone}) for gone in itertools.combinations(names, few_orgs)
    )
