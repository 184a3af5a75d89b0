#!/usr/bin/env python3
"""A second verifier of veilsum bundles, written from docs/transcript.md. Section numbers are that page's.

    verify.py --federation NAME --authority HEX BUNDLE
    verify.py --federation NAME --authority HEX --stream    u32 length and bundle, again and again, on standard input

    --witnesses FILE   the witnesses' policy, C2SP tlog-policy: its quorum must have cosigned a head of the log
    --since TIME       cosignatures from before this do not count
    --keep-rounds N    masked vectors may be gone once N more rounds are published, where the policy sets no window

A file of another tier (section 10) is judged like a bundle. Prints one JSON object a bundle: the overall verdict, the rules that were violated, and the sums it recomputed.
Exit codes: 0 verified, 6 violated or unreadable, 2 the command line. Needs Python 3.9 and the package `cryptography`.
"""

import base64
import itertools
import json
import math
import struct
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

sys.dont_write_bytecode = True
from primitives import (
    BASE, HL, H, L, ORDER, add, chunk_leaves, chunk_root, decode_point, encode_point, hkdf, included, interpolate, mask_words,
    model_digest, mul, negate, pack, packed_length, rule_holds, scalar, signed, successor, tree_root, u8, u16, u32, u64,
    unpack, valid_key,
)

# --- 1. Conventions -----------------------------------------------------------------------------------------------


class Unreadable(Exception):
    """The bundle cannot be taken apart."""


class Malformed(Exception):
    """Bytes that are not canonical."""


class Reader:
    """Canonical bytes, front to back."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if self.at + n > len(self.data):
            raise Malformed("too short")
        out = self.data[self.at : self.at + n]
        self.at += n
        return out

    def int(self, n):
        return int.from_bytes(self.take(n), "little")

    u8, u16 = (lambda self: self.int(1)), (lambda self: self.int(2))
    u32, u64 = (lambda self: self.int(4)), (lambda self: self.int(8))
    d = lambda self: self.take(32)

    def count(self, most):
        n = self.u64()
        if n > most:
            raise Malformed("list over its bound")
        return n

    def list(self, most, read):
        return [read() for _ in range(self.count(most))]

    def bytes(self, most):
        return self.take(self.count(most))

    def choice(self, n):
        tag = self.u32()
        if tag >= n:
            raise Malformed("unknown choice")
        return tag

    def option(self):
        tag = self.u8()
        if tag > 1:
            raise Malformed("unknown choice")
        return tag == 1

    def set(self):
        data = self.bytes(512)
        if data.endswith(b"\0"):
            raise Malformed("a set ends in a zero byte")
        return frozenset(c for c in range(8 * len(data)) if data[c // 8] >> c % 8 & 1)

    def head(self):
        return (self.u64(), self.d())

    def end(self):
        if self.at != len(self.data):
            raise Malformed("bytes left over")


class Body:
    def __init__(self, **fields):
        self.__dict__.update(fields)


# --- 3 and 4. Entries and statements --------------------------------------------------------------------------------

KINDS = "member policy plan keys shares masked agree reveal sums late aborted complaint descriptor".split()
PHASES = "advertise share mask agree unmask publish".split()
AUTHORITY, SERVER = ("authority",), ("server",)


def read_entry(data):
    if len(data) > 65535:
        raise Malformed("entry too long")
    r = Reader(data)
    blinder, kind, who = r.d(), KINDS[r.choice(13)], r.choice(3)
    signer = (AUTHORITY, SERVER, None)[who] or ("client", r.u32())
    body, signature = r.bytes(65375), r.take(64)
    r.end()
    tag = {"authority": 0, "server": 1, "client": 2}[signer[0]]
    client = signer[1] if tag == 2 else 0
    message = blinder + u8(tag) + u32(client) + body
    return Body(kind=kind, signer=signer, raw=body, message=message, signature=signature, leaf=H(b"\0" + data))


def read_clustering(r):
    c = Body(threshold=r.choice(3))
    c.value = (r.u32, lambda: None, r.u64)[c.threshold]()
    c.every, c.images, c.channels = r.u64(), r.u32(), r.u32()
    c.noise = (r.u32(), r.u32(), r.u32()) if r.option() else None
    c.number = lambda round_: 1 if c.every == 0 else max(round_ - 1, 0) // c.every + 1
    return c


def read_body(kind, data):
    r = Reader(data)
    b = Body()
    if kind == "member":
        b = Body(client=r.u32(), org=r.u32(), key=r.d(), tls=r.d())
    elif kind == "policy":
        if len(data) > 512:
            raise Malformed("policy too long")
        b = Body(suite=r.u16(), name=r.bytes(64), server=r.d(), server_tls=r.d(), clients=r.u32(), members=r.d())
        for field in "threshold colluders dropouts crowd crowd_orgs".split():
            setattr(b, field, r.u32())
        b.entries, b.schema, b.value_bits, b.bits = r.u64(), r.d(), r.u8(), r.u8()
        b.range_micros, b.max_weight, b.initial, b.rounds = r.u32(), r.u32(), r.d(), r.u64()
        b.clustering = read_clustering(r) if r.option() else None
        b.blocks, b.keep_rounds = r.u32(), r.u64()
        b.lost = b.dropouts * (2 * b.blocks - 1 if b.blocks else 1)
        if not 1 <= b.bits <= 32:
            raise Malformed("modulus")
    elif kind == "plan":
        b = Body(round=r.u64(), attempt=r.u32(), policy=r.d(), head=r.head())
        b.clusters = r.list(64, lambda: (r.d(), r.set()))
        b.seed = r.d()
    elif kind == "descriptor":
        b = Body(policy=r.d(), clustering=r.u64(), digest=r.d())
    elif kind == "keys":
        b = Body(plan=r.d(), box=r.d(), mask=r.d(), commitments=r.list(64, lambda: (r.u16(), r.d())), head=r.head())
    elif kind == "shares":
        b = Body(plan=r.d(), roster=r.d(), digests=r.list(2000, r.d), boxes=r.d())
    elif kind == "complaint":
        b = Body(plan=r.d(), roster=r.d(), dealer=r.u32(), sealed=r.bytes(4096), proof=r.list(16, r.d))
        b.shared, b.challenge, b.response = r.d(), r.d(), r.d()
    elif kind == "masked":
        b = Body(plan=r.d(), roster=r.d(), dealers=r.set(), vectors=r.list(64, lambda: (r.u16(), r.d(), r.u64())))
    elif kind == "late":
        b = Body(round=r.u64(), attempt=r.u32(), client=r.u32(), leaf=r.d())
    elif kind == "agree":
        b = Body(plan=r.d(), roster=r.d(), dealers=r.set(), survivors=r.set(), release=r.list(64, r.u16))
        b.head, b.server, b.raw = r.head(), r.take(64), data
        b.digest = HL("agreement", data[:-64])
    elif kind == "reveal":
        b = Body(agreement=r.d(), seeds=r.list(2000, lambda: (r.u32(), r.u16(), r.d())))
        b.masks = r.list(2000, lambda: (r.u32(), r.d()))
    elif kind == "sums":
        b = Body(plan=r.d(), agreement=r.d())
        b.results = r.list(64, lambda: (r.u16(), r.d(), r.u32(), r.u64(), r.d()))
    elif kind == "aborted":
        b = Body(round=r.u64(), attempt=r.u32(), phase=PHASES[r.choice(6)], reason=r.bytes(64), culprits=r.set())
    r.end()
    return b


# --- 2. The bundle --------------------------------------------------------------------------------------------------


ORDERS = {
    b"veilsum-bundle/1\n": {"": "C", "C": "WEMHVGZ", "W": "EMHVGZ", "E": "EMHVGZ", **dict.fromkeys("MHVG", "MHVGZ")},
    b"veilsum-subset/1\n": {"": "T", "T": "C", "C": "WPLNZ", "W": "K", "K": "PLNZ", "P": "PLNZ", "L": "LNZ", "N": "NZ"},
}
LONGEST = dict(C=4096, W=16384, E=65535, G=12, T=5, K=4096, P=9 + 2048 + 65535, L=40 + 2048, N=68 + 8 * 65536, Z=0)
SHORTEST = dict(M=32, V=18, H=18, G=12, T=5, P=9, L=40, N=76)


def read_parts(data):
    """The kind of file and its parts."""
    magic, orders = data[:17], ORDERS.get(data[:17])
    if orders is None:
        raise Unreadable("no bundle")
    at, parts, order = len(magic), [], orders[""]
    while True:
        if at + 9 > len(data):
            raise Unreadable("cut off")
        tag, length = chr(data[at]), int.from_bytes(data[at + 1 : at + 9], "little")
        at += 9
        if tag not in order or at + length > len(data):
            raise Unreadable("a part out of place, or cut off")
        if length > LONGEST.get(tag, length) or length < SHORTEST.get(tag, 0):
            raise Unreadable("a part of a wrong length")
        parts.append((tag, data[at : at + length]))
        at += length
        order = orders.get(tag, "")
        if tag == "Z":
            if at != len(data):
                raise Unreadable("bytes after the end")
            return magic, parts


def hashes(data):
    if len(data) % 32:
        raise Unreadable("hashes of a wrong length")
    return [data[i : i + 32] for i in range(0, len(data), 32)]


def read_head(data, most=1):
    """Section 7; the one spelling of a note with 1 to `most` signatures."""
    try:
        text, lines = data.decode().rsplit("\n\n", 1)
        origin, size, root = text.split("\n")
        root_bytes = base64.b64decode(root, validate=True)
        again = f"{origin}\n{int(size)}\n{base64.b64encode(root_bytes).decode()}\n\n"
        signatures = []
        for line in lines.removesuffix("\n").split("\n"):
            name, encoded = line.removeprefix("\u2014 ").split(" ")
            blob = base64.b64decode(encoded, validate=True)
            again += f"\u2014 {name} {base64.b64encode(blob).decode()}\n"
            signatures.append((name, blob[:4], blob[4:]))
    except (ValueError, UnicodeDecodeError):
        raise Unreadable("the head is no signed note") from None
    plain = all(name and not any(c.isspace() or c == "+" for c in name) for name, _, _ in signatures)
    if again.encode() != data or any(ord(c) < 32 and c != "\n" for c in again) or not origin or not plain:
        raise Unreadable("the head is no signed note")
    if not size.isascii() or int(size) >= 2**64 or len(root_bytes) != 32 or not all(sig for _, _, sig in signatures):
        raise Unreadable("the head is no checkpoint")
    if len(signatures) > most:
        raise Unreadable("the head has more signatures than one")
    return Body(text=text + "\n", origin=origin, head=(int(size), root_bytes), signatures=signatures)


def extends(old, new, proof):
    """RFC 9162, 2.1.4.2: whether the tree of the head `new` extends that of `old`."""
    (first, old_root), (second, new_root) = old, new
    if first == 0 or first > second:
        return False
    if first == second:
        return not proof and old_root == new_root
    path = ([old_root] if first & (first - 1) == 0 else []) + list(proof)
    if not path:
        return False
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = path[0]
    for c in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr, sr = H(b"\1" + c + fr), H(b"\1" + c + sr)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = H(b"\1" + sr + c)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and (fr, sr) == (old_root, new_root)


class Witnesses:
    """A policy file of C2SP tlog-policy, as far as a verifier needs it. A file that is none is the caller's mistake."""

    def __init__(self, text, since):
        self.logs, self.keys, self.groups, self.quorum, self.since = [], {}, [], None, since
        for words in (line.split() for line in text.splitlines()):
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "log":
                self.logs.append(self.key(words[1], 1))
            elif words[0] == "witness":
                self.keys[words[1]] = self.key(words[2], 4)
            elif words[0] == "group":
                members = words[3:]
                need = {"any": 1, "all": len(members)}.get(words[2]) or int(words[2])
                self.groups.append((words[1], need, members))
            elif words[0] == "quorum":
                self.quorum = words[1]
        if self.quorum is None:
            raise ValueError("a policy without a quorum line")

    @staticmethod
    def key(vkey, kind):
        name, key_id, encoded = vkey.split("+", 2)
        blob = base64.b64decode(encoded, validate=True)
        if blob[0] != kind or H(name.encode() + b"\n" + blob)[:4].hex() != key_id:
            raise ValueError("a key that is none")
        return name, blob[1:]

    def satisfied(self, names):
        done = set(names)
        for name, need, members in self.groups:
            if sum(member in done for member in members) >= need:
                done.add(name)
        return self.quorum in done

    def judge(self, note, server):
        """None when the quorum cosigned a note, else what is wrong."""
        for name, key in self.logs:
            if name == note.origin and key != server:
                return "another log key"
        if self.logs and note.origin not in (name for name, _ in self.logs):
            return "another log"
        fresh = set()
        for witness, (name, key) in self.keys.items():
            key_id = H(name.encode() + b"\n\4" + key)[:4]
            for line, line_id, blob in note.signatures:
                if (line, line_id) != (name, key_id):
                    continue
                time = int.from_bytes(blob[:8], "big")
                message = f"cosignature/v1\ntime {time}\n{note.text}".encode()
                if len(blob) != 72 or time >= 2**63 or not signed(key, message, blob[8:]):
                    return f"the cosignature of {name} does not hold"
                if time >= self.since:
                    fresh.add(witness)
        return None if self.satisfied(fresh) else "no quorum"


# --- 8. The audit ---------------------------------------------------------------------------------------------------

ORDER_OF = {"keys": 0, "shares": 1, "masked": 2, "agree": 3, "reveal": 4, "sums": 5, "aborted": 5}


class Attempt:
    """One attempt at a round: its statements, by client where there is one of each."""

    def __init__(self, index, leaf, plan):
        self.index, self.leaf, self.plan = index, leaf, plan
        self.keys, self.shares, self.masked = {}, {}, {}
        self.agrees, self.reveals, self.lates, self.complaints = [], [], [], []
        self.end, self.stage = None, 0

    def clusters_of(self, client):
        return [k for k, (_, members) in enumerate(self.plan.clusters) if client in members]

    def invited(self):
        return set().union(*(members for _, members in self.plan.clusters))


class Audit:
    def __init__(self, federation, authority, witnesses=None, keep=None):
        self.name, self.authority = federation.encode(), authority
        self.witnesses, self.keep = witnesses, keep
        self.federation = HL("federation", authority, self.name)
        self.violations, self.sums = [], []

    def demand(self, holds, rule, what=""):
        if not holds:
            self.violations.append((rule, what))
        return holds

    def run(self, data):
        magic, parts = read_parts(data)
        if magic.startswith(b"veilsum-subset"):
            return Subset(self, parts).run()
        note = read_head(parts[0][1])
        cosigned = next((payload for tag, payload in parts if tag == "W"), None)
        raw = [payload for tag, payload in parts if tag == "E"]
        self.leaves = [H(b"\0" + entry) for entry in raw]
        self.heads = {}
        entries = []
        for index, entry in enumerate(raw):
            try:
                e = read_entry(entry)
                e.index, e.body = index, read_body(e.kind, e.raw)
                entries.append(e)
            except Malformed as error:
                self.demand(False, "entries", f"{index}: {error}")
        self.demand(note.head == (len(raw), tree_root(self.leaves)), "head", "other entries")
        if not self.enrolment(entries):
            return
        self.demand(self.is_servers(note, self.policy.server), "head", "another log or key, or signature")
        self.signatures(entries)
        if len(entries) != len(raw):
            return
        self.story(entries)
        self.clustering()
        self.last, self.published, self.models, self.seen, self.clusters = None, None, {}, set(), []
        for attempt in self.attempts:
            self.judge(attempt)
        self.witnessed(cosigned, self.policy.server, lambda head: self.head_at(head[0]) == head)
        try:
            self.replay([part for part in parts if part[0] in "MHVG"])
        except Unreadable:
            # What a log is guilty of stands, even if it calls for other vectors than are there.
            if not self.violations:
                raise

    def is_servers(self, note, server):
        name = "veilsum/" + self.federation.hex()[:16]
        key_id = H(name.encode() + b"\n\1" + server)[:4]
        mine = [sig for line, line_id, sig in note.signatures if (line, line_id) == (name, key_id)]
        return note.origin == name and mine and all(signed(server, note.text.encode(), sig) for sig in mine)

    def witnessed(self, cosigned, server, had):
        """Section 7: the quorum of the witnesses' policy, if one is asked for."""
        if self.witnesses is None or self.witnesses.quorum == "none":
            return
        if not self.demand(cosigned is not None, "witnesses", "no cosigned head"):
            return
        try:
            note = read_head(cosigned, 99)
        except Unreadable as error:
            self.demand(False, "witnesses", str(error))
            return
        self.demand(self.is_servers(note, server) and had(note.head), "witnesses", "not of this log")
        wrong = self.witnesses.judge(note, server)
        self.demand(wrong is None, "witnesses", wrong)

    def head_at(self, size):
        if size > len(self.leaves):
            return None
        if size not in self.heads:
            self.heads[size] = (size, tree_root(self.leaves[:size]))
        return self.heads[size]

    def enrolment(self, entries):
        d = lambda holds, what: self.demand(holds, "enrolment", what)
        members = list(itertools.takewhile(lambda e: e.kind == "member", entries))
        rest = entries[len(members) :]
        if not rest or rest[0].kind != "policy":
            return d(False, "the log does not begin with members and a policy")
        p = self.policy = rest[0].body
        self.policy_leaf = rest[0].leaf
        d(all(e.signer == AUTHORITY for e in members + rest[:1]), "not the authority's")
        d(p.name == self.name, "another federation")
        d([e.body.client for e in members] == list(range(p.clients)), "numbers")
        d(p.members == HL("members", *(e.leaf for e in members)), "members")
        self.members = {e.body.client: e.body for e in members}
        keys = [e.body.key for e in members] + [p.server, self.authority]
        d(all(valid_key(key) for key in keys) and len(set(keys)) == len(keys), "keys")
        self.safe(p, d)
        return True

    @staticmethod
    def safe(p, d):
        n, t = p.clients, p.threshold
        d(p.suite == 1 and 3 <= n <= 4096, "suite or clients")
        d(2 * t > n + p.colluders and t <= n and p.lost + t <= n, "threshold")
        d(p.blocks != 1 and p.blocks <= n and not (p.blocks and p.clustering and p.clustering.every), "blocks")
        d(p.crowd >= 2 and p.crowd_orgs >= 1, "crowd")
        d(2 <= p.value_bits <= 24 and p.range_micros and p.max_weight and 1 <= p.entries <= 2**31, "update")
        need = max(p.value_bits, p.max_weight.bit_length()) + max(n - 1, 0).bit_length()
        d(need <= 32 and need <= p.bits, "bit budget")
        c = p.clustering
        if c:
            d(c.threshold != 0 or c.value <= 10**6, "overlap")
            d(c.images >= 8 and 1 <= c.channels <= 65536, "descriptors")
            d(c.noise is None or all(c.noise), "noise")

    def signatures(self, entries):
        for e in entries:
            key = {"authority": self.authority, "server": self.policy.server}.get(e.signer[0])
            if e.signer[0] == "client":
                member = self.members.get(e.signer[1])
                key = member.key if member else None
            message = L("statement/" + e.kind) + self.federation + e.message
            self.demand(key is not None and signed(key, message, e.signature), "signatures", f"entry {e.index}")

    def story(self, entries):
        self.attempts, self.descriptors = [], []
        begun = False
        for e in entries:
            d = lambda holds, what: self.demand(holds, "order", f"entry {e.index}: {what}")
            server_kind = e.kind in ("plan", "sums", "late", "aborted")
            want = "authority" if e.kind in ("member", "policy") else "server" if server_kind else "client"
            if not d(e.signer[0] == want, "another's to sign"):
                continue
            if e.kind in ("member", "policy"):
                d(not begun, "after the policy")
                begun = begun or e.kind == "policy"
                continue
            if e.kind == "descriptor":
                d(begun and (not self.attempts or self.attempts[-1].stage == 5), "descriptor in an attempt")
                self.descriptors.append((e.signer[1], e.index, e.body))
                continue
            if e.kind == "plan":
                self.attempts.append(Attempt(e.index, e.leaf, e.body))
                continue
            if not d(bool(self.attempts), "before any plan"):
                continue
            self.place(self.attempts[-1], e, d)

    def clustering(self):
        d = lambda holds, what: self.demand(holds, "clustering", what)
        c, known, held = self.policy.clustering, set(), {}
        for a in self.attempts:
            if c or self.policy.blocks:
                sets = [members for _, members in a.plan.clusters]
                number = c.number(a.plan.round) if c else 1
                d(held.setdefault(number, sets) == sets, f"round {a.plan.round}: clusters changed")
        if c is None:
            return d(not self.descriptors, "descriptors that nobody asked for")
        for client, index, b in self.descriptors:
            d(b.policy == self.policy_leaf, f"entry {index}: another policy")
            d(1 <= b.clustering <= c.number(self.policy.rounds), f"entry {index}: no such clustering")
            d((client, b.clustering) not in known, f"entry {index}: again")
            known.add((client, b.clustering))
        for a in self.attempts:
            number = c.number(a.plan.round)
            shown = {who for who, index, b in self.descriptors if b.clustering == number and index < a.index}
            sets = [members for _, members in a.plan.clusters]
            d(set().union(*sets) <= shown, f"round {a.plan.round}: somebody without a descriptor")

    def hand_down(self, plan):
        """Models of new clusters where the clients were clustered anew."""
        c, sets = self.policy.clustering, [members for _, members in plan.clusters]
        if c and self.last and c.number(self.last[0]) != c.number(plan.round):
            old, self.models = self.models, {}
            for k, members in enumerate(sets):
                shared = [len(members & before) for before in self.clusters]
                if shared and max(shared) and shared.index(max(shared)) in old:
                    self.models[k] = old[shared.index(max(shared))]
        self.clusters = sets

    def place(self, a, e, d):
        client = e.signer[1] if e.signer[0] == "client" else None
        if e.kind == "complaint":
            if d(1 <= a.stage <= 2, "complaint out of order"):
                a.stage = 2
                d(all((c, b.dealer) != (client, e.body.dealer) for c, b in a.complaints), "again")
                a.complaints.append((client, e.body))
        elif e.kind == "late":
            if d(1 <= a.stage <= 4, "late out of order"):
                a.stage = max(a.stage, 2)
                a.lates.append(e.body)
        elif e.kind in ("sums", "aborted"):
            if d(a.end is None, "a second end"):
                a.end, a.stage = e, 5
        else:
            stage = ORDER_OF[e.kind]
            in_order = d(a.stage <= stage, "after a later phase")
            a.stage = max(a.stage, stage)
            if e.kind in ("agree", "reveal"):
                # Counted wherever they stand: what was opened was opened.
                known = a.agrees if e.kind == "agree" else a.reveals
                d(all(c != client for c, _ in known), "again")
                known.append((client, e))
            elif in_order:
                known = {"keys": a.keys, "shares": a.shares, "masked": a.masked}[e.kind]
                if d(client not in known, "again"):
                    known[client] = e

    def judge(self, a):
        p, plan = self.policy, a.plan
        d = lambda holds, rule, what="": self.demand(holds, rule, f"round {plan.round}.{plan.attempt}: {what}")
        a.published = a.end.body if a.end and a.end.kind == "sums" else None
        a.roster = HL("roster", *(a.keys[c].leaf for c in sorted(a.keys)))
        fields = u16(p.suite), self.federation, u64(plan.round), u32(plan.attempt), plan.policy, a.leaf
        a.P = HL("plan-context", *fields)
        a.R = HL("round-context", a.P, a.roster)
        self.check_plan(a, d)
        self.check_statements(a, d)
        self.check_phases(a, d)
        a.held = self.check_complaints(a, d)
        a.agreed = self.check_agreement(a, d)
        self.check_release(a, d)
        self.check_reveals(a, d)
        self.check_end(a, d)

    def check_plan(self, a, d):
        p, plan, now = self.policy, a.plan, (a.plan.round, a.plan.attempt)
        d(plan.policy == self.policy_leaf and 1 <= plan.round <= p.rounds, "plan", "policy or round")
        d(self.last is None or self.last < now, "plan", "not in turn")
        d(self.published != plan.round, "plan", "published before")
        d(len(plan.clusters) > 0 and a.invited() <= set(self.members), "plan", "clusters")
        d(plan.head == self.head_at(a.index), "head", "the plan's head")
        self.hand_down(plan)
        self.last = max(self.last or now, now)
        for k, (model, _) in enumerate(plan.clusters):
            d(self.models.setdefault(k, p.initial) == model, "models", f"cluster {k} starts from another model")
        if a.published:
            self.published = plan.round
            for k, _, _, _, model in a.published.results:
                self.models[k] = model

    def check_statements(self, a, d):
        p = self.policy
        length = packed_length(p.entries + 1, p.bits)
        for c, e in sorted(a.keys.items()):
            b = e.body
            d(b.plan == a.leaf and b.head == a.plan.head, "statements", f"keys of {c}")
            d([k for k, _ in b.commitments] == a.clusters_of(c), "statements", f"commitments of {c}")
            d(all(decode_point(key) is not None for key in (b.box, b.mask)), "statements", f"key of {c}")
            for key in (b.mask, b.box):
                d(key not in self.seen, "statements", f"a key of {c} seen before")
                self.seen.add(key)
        for c, e in a.shares.items():
            b, due = e.body, len(a.keys) * (1 + len(a.clusters_of(c)))
            d((b.plan, b.roster, len(b.digests)) == (a.leaf, a.roster, due), "statements", f"shares of {c}")
        for c, e in a.masked.items():
            b = e.body
            d((b.plan, b.roster, b.dealers) == (a.leaf, a.roster, set(a.shares)), "statements", f"masked of {c}")
            d([k for k, _, _ in b.vectors] == a.clusters_of(c), "statements", f"vectors of {c}")
            d(all(n == length for _, _, n in b.vectors), "statements", f"length of {c}")

    def check_phases(self, a, d):
        signed_by, revealed = {c for c, _ in a.agrees}, {c for c, _ in a.reveals}
        steps = [a.invited(), set(a.keys), set(a.shares), set(a.masked), signed_by, revealed]
        for before, did in zip(steps, steps[1:]):
            d(did <= before, "phases", "somebody took part without the phase before")
        t, out = self.policy.threshold, bool(a.published)
        goes_on = [bool(steps[2]), bool(steps[3]), bool(steps[4]), bool(steps[5]) or out, out]
        for on, did in zip(goes_on, steps[1:]):
            d(not on or len(did) >= t, "threshold", "too few and it went on")

    def share_at(self, a, dealer, holder, cluster):
        """The digest the dealer stated, or None."""
        if dealer not in a.shares or holder not in a.keys:
            return None
        clusters = a.clusters_of(dealer)
        if cluster is not None and cluster not in clusters:
            return None
        row = sorted(a.keys).index(holder) * (1 + len(clusters))
        at = row + (0 if cluster is None else 1 + clusters.index(cluster))
        digests = a.shares[dealer].body.digests
        return digests[at] if at < len(digests) else None

    def share_digest(self, a, dealer, holder, cluster, share):
        kind = (0, 0) if cluster is None else (1, cluster)
        return HL("share-digest", a.R, u32(dealer), u32(holder), u8(kind[0]), u16(kind[1]), share)

    def check_complaints(self, a, d):
        held = set()
        for receiver, b in a.complaints:
            if d(self.convicts(a, receiver, b), "complaints", f"of {receiver} about {b.dealer}"):
                held.add((b.dealer, receiver))
        return held

    def convicts(self, a, receiver, b):
        dealer = b.dealer
        if dealer not in a.shares or dealer == receiver or not {dealer, receiver} <= set(a.keys):
            return False
        stated = a.shares[dealer].body
        if (b.plan, b.roster) != (stated.plan, stated.roster):
            return False
        others = [c for c in sorted(a.keys) if c != dealer]
        place = others.index(receiver)
        if not included(H(b"\0" + b.sealed), place, len(others), b.proof, stated.boxes):
            return False
        e, z = scalar(b.challenge), scalar(b.response)
        D, C = a.keys[dealer].body.box, a.keys[receiver].body.box
        points = [decode_point(x) for x in (D, C, b.shared)]
        if e is None or z is None or None in points:
            return False
        by_base = add(mul(z, BASE), negate(mul(e, points[1])))
        by_dealer = add(mul(z, points[0]), negate(mul(e, points[2])))
        parts = a.R, u32(dealer), D, u32(receiver), C, b.shared, encode_point(by_base), encode_point(by_dealer)
        if int.from_bytes(HL("box-opening", *parts), "little") % ORDER != e:
            return False
        key = hkdf(a.R, b.shared, HL("box-key", u32(dealer), u32(receiver)))
        try:
            inside = ChaCha20Poly1305(key).decrypt(bytes(12), b.sealed, b"veilsum/v1/shares")
        except (InvalidTag, ValueError):
            return True
        wanted = [None] + a.clusters_of(dealer)
        if len(inside) != 32 * len(wanted):
            return True
        given = [inside[i : i + 32] for i in range(0, len(inside), 32)]
        return not all(
            scalar(share) is not None
            and self.share_digest(a, dealer, receiver, k, share) == self.share_at(a, dealer, receiver, k)
            for k, share in zip(wanted, given)
        )

    def blocks(self, a):
        """Clients that count together."""
        least, alike, groups = max(self.policy.blocks, 1), {}, []
        for client in sorted(a.invited()):
            alike.setdefault(tuple(a.clusters_of(client)), []).append(client)
        for clients in alike.values():
            count = max(len(clients) // least, 1)
            groups += [set(clients[k * least : len(clients) if k + 1 == count else (k + 1) * least]) for k in range(count)]
        return groups

    def counted(self, a):
        uploaded = set(a.masked)
        if not self.policy.blocks:
            return uploaded
        return set().union(*(block for block in self.blocks(a) if block <= uploaded))

    def check_agreement(self, a, d):
        if not a.agrees:
            d(not a.published and not a.reveals, "agreement", "opened without any")
            return None
        first = a.agrees[0][1]
        b = first.body
        a.signers = {c for c, e in a.agrees if e.body.raw == b.raw}
        d(len(a.signers) == len({c for c, _ in a.agrees}), "agreement", "not one")
        d(all(c in e.body.survivors for c, e in a.agrees), "agreement", "signed by somebody else")
        message = L("proposal") + self.federation + b.digest
        d(signed(self.policy.server, message, b.server), "agreement", "not proposed")
        d((b.plan, b.roster, b.dealers) == (a.leaf, a.roster, set(a.shares)), "agreement", "plan, roster or dealers")
        d(b.survivors == self.counted(a), "agreement", "survivors")
        low = max((e.index + 1 for e in a.masked.values()), default=2**64)
        d(low <= b.head[0] <= first.index and self.head_at(b.head[0]) == b.head, "agreement", "head")
        if a.published:
            s = a.published
            d(len(a.signers) >= self.policy.threshold, "agreement", "signatures")
            d((s.plan, s.agreement) == (a.leaf, b.digest), "agreement", "sums of another")
            d([k for k, *_ in s.results] == b.release, "agreement", "other clusters opened")
        return b

    def release_of(self, a, survivors):
        """What must be released, or None when only safety can be checked (section 9)."""
        p = self.policy
        need = p.crowd + p.colluders
        orgs = {c: m.org for c, m in self.members.items()}
        rows = [members & survivors for _, members in a.plan.clusters]
        large = [k for k, row in enumerate(rows) if row and len(row) >= need]
        safe = lambda chosen: rule_holds([rows[k] for k in chosen], survivors, orgs, need, p.crowd_orgs)
        return large, safe

    def check_release(self, a, d):
        p = self.policy
        orgs = {c: m.org for c, m in self.members.items()}
        margin = p.crowd + p.colluders + p.lost
        d(all(len(block) >= p.blocks for block in self.blocks(a)), "disclosure", "a group is too small")
        rows = [members for _, members in a.plan.clusters]
        d(rule_holds(rows, a.invited(), orgs, margin, p.crowd_orgs), "disclosure", "the plan leaks")
        if a.agreed:
            release = a.agreed.release
            large, safe = self.release_of(a, a.agreed.survivors)
            d(release and set(release) <= set(large) and safe(release), "disclosure", "the release leaks")
            d(release == sorted(set(release)), "disclosure", "not ascending")
            d(not safe(large) or release == large, "disclosure", "withheld for nothing")

    def check_reveals(self, a, d):
        a.seeds, a.secrets, a.bad = {}, {}, set()
        if not a.reveals:
            return
        owners = [{x[0] for _, e in a.reveals for x in getattr(e.body, kind)} for kind in ("seeds", "masks")]
        d(not owners[0] & owners[1], "one kind", "both kinds opened")
        b = a.agreed
        if not b:
            return
        seeds = [(u, k) for u in sorted(b.survivors) for k in a.clusters_of(u) if k in b.release]
        masks = sorted(b.dealers - b.survivors)
        good = {}
        for c, e in a.reveals:
            r = e.body
            d(r.agreement == b.digest and c in a.signers, "reveals", f"{c} answers another")
            mine = lambda owner: (owner, c) not in a.held
            d([x[:2] for x in r.seeds] == [x for x in seeds if mine(x[0])], "reveals", f"self-masks by {c}")
            d([x[0] for x in r.masks] == [x for x in masks if mine(x)], "reveals", f"mask secrets by {c}")
            for owner, k, share in [(*x,) for x in r.seeds] + [(x[0], None, x[1]) for x in r.masks]:
                stated = self.share_at(a, owner, c, k)
                fits = scalar(share) is not None and stated == self.share_digest(a, owner, c, k, share)
                if d(fits, "shares", f"{c} of {owner}"):
                    good.setdefault((owner, k), {})[c] = scalar(share)
        if len({c for c, _ in a.reveals}) < self.policy.threshold:
            return
        blamed = a.end.body.culprits if a.end and a.end.kind == "aborted" else frozenset()
        for owner, k in seeds + [(u, None) for u in masks]:
            self.open(a, d, owner, k, good.get((owner, k), {}), blamed)

    def open(self, a, d, owner, k, shares, blamed):
        t = self.policy.threshold
        points = [(c + 1, shares[c]) for c in sorted(shares)]
        if not d(len(points) >= t, "secrets", f"too few good shares of {owner}"):
            return
        secrets = {interpolate(points[: t - 1] + [last]) for last in points[t - 1 :]}
        secret = secrets.pop()
        raw = secret.to_bytes(32, "little")
        keys = a.keys.get(owner)
        if k is None:
            fits = keys and encode_point(mul(secret, BASE)) == keys.body.mask
        else:
            committed = dict(keys.body.commitments).get(k) if keys else None
            fits = committed == HL("self-commitment", a.P, u32(owner), u16(k), raw)
        if secrets or not fits:
            a.bad.add(owner)
            d(owner in blamed, "secrets", f"{owner} dealt another secret")
        elif k is None:
            a.secrets[owner] = secret
        else:
            a.seeds[(owner, k)] = raw

    def check_end(self, a, d):
        t, revealed = self.policy.threshold, len({c for c, _ in a.reveals})
        counted = {e.leaf for e in a.masked.values()}
        for late in a.lates:
            own = (late.round, late.attempt) == (a.plan.round, a.plan.attempt)
            d(own and late.client in self.members and late.leaf not in counted, "ending", "late")
        if a.end is None:
            d(revealed < t, "ending", "opened and never published")
        if a.end is None or a.published:
            return
        b = a.end.body
        d((b.round, b.attempt) == (a.plan.round, a.plan.attempt), "ending", "of another attempt")
        counts = [len(a.shares), len(a.masked), len(a.agrees), revealed]
        d(not any(counts[PHASES.index(b.phase) :]), "ending", "beyond its phase")
        reason = "".join(chr(x) for x in b.reason if chr(x).isascii() and chr(x).isalnum())
        too_few = {
            "TooFewKeys": ("advertise", len(a.keys)),
            "TooFewShares": ("share", len(a.shares)),
            "TooFewMasked": ("mask", len(self.counted(a))),
            "TooFewAgree": ("agree", len(a.agrees)),
            "TooFewReveal": ("unmask", revealed),
        }
        if reason in too_few:
            phase, have = too_few[reason]
            d(b.phase == phase and have < t, "ending", reason)
        if reason == "ReleaseLeaks":
            large, safe = self.release_of(a, self.counted(a))
            d(b.phase == "mask" and not any(safe([k]) for k in large), "ending", reason)
        if reason == "BadDealer":
            spoilt = {dealer for dealer, _ in a.held}
            left = lambda x: sum((x, holder) not in a.held for holder in a.masked)
            guilty = all(x in a.bad or (x in spoilt and left(x) < t) for x in b.culprits)
            d(len(b.culprits) > 0 and guilty, "ending", reason)
        else:
            d(not b.culprits and revealed < t, "ending", "blame, or opened")

    def replay(self, parts):
        """Vectors and models in their order, and the sums."""
        p, parts, models, named = self.policy, list(parts), {}, set()
        length = packed_length(p.entries + 1, p.bits)
        published = [a for a in self.attempts if a.published]
        last = max((a.plan.round for a in published if a.agrees), default=0)

        def take_models(wanted):
            while parts and parts[0][0] == "M" and parts[0][1][:32] in wanted:
                digest, model = parts[0][1][:32], parts.pop(0)[1][32:]
                del wanted[: wanted.index(digest) + 1]
                if len(model) != 4 * p.entries:
                    raise Unreadable("a model of a wrong length")
                if self.demand(model_digest(model) == digest, "models", "a model given as another"):
                    models[digest] = model

        def unnamed(digests):
            fresh = [x for x in dict.fromkeys(digests) if x not in named]
            named.update(fresh)
            return fresh

        for a in [a for a in published if a.agrees]:
            clusters = [k for k, *_ in a.published.results if k < len(a.plan.clusters)]
            take_models(unnamed(a.plan.clusters[k][0] for k in clusters))
            opened = {k for k, *_ in a.published.results}
            roots = {u: {k: root for k, root, _ in reversed(e.body.vectors)} for u, e in a.masked.items()}
            survivors = sorted(a.agrees[0][1].body.survivors & set(a.masked))
            due = [(u, k) for u in survivors for k in sorted(opened & set(roots[u]))]
            if parts and due and parts[0] == ("G", u64(a.plan.round) + u32(a.plan.attempt)):
                parts.pop(0)
                keep = p.keep_rounds or self.keep
                over = keep is not None and a.plan.round + keep <= last
                self.demand(over, "vectors", "gone and not yet to be")
                continue
            running = {}
            for u, k in due:
                name = u64(a.plan.round) + u32(a.plan.attempt) + u32(u) + u16(k)
                claimed = None
                if parts and parts[0][0] == "H" and parts[0][1][:18] == name:
                    claimed = hashes(parts.pop(0)[1][18:])
                if not parts or parts[0][0] != "V" or parts[0][1][:18] != name:
                    raise Unreadable("a vector is missing or out of order")
                packed = parts.pop(0)[1][18:]
                if len(packed) != length:
                    raise Unreadable("a vector of a wrong length")
                words, clean = unpack(packed, p.entries + 1, p.bits)
                root, leaves = chunk_root(packed, p.entries + 1, p.bits), chunk_leaves(packed, p.entries + 1, p.bits)
                self.demand(clean and root == roots[u][k], "vectors", f"client {u} cluster {k}")
                self.demand(claimed is None or claimed == leaves, "vectors", f"chunk hashes, client {u} cluster {k}")
                total, who = running.setdefault(k, ([0] * (p.entries + 1), set()))
                who.add(u)
                running[k] = ([x + y for x, y in zip(total, words)], who)
            for result in a.published.results:
                self.sum_up(a, result, running.get(result[0]), models)
        take_models(unnamed(model for a in published for *_, model in a.published.results))
        if parts:
            raise Unreadable("a part that is not due")

    def sum_up(self, a, result, running, models):
        p, (k, root, contributors, weight, new) = self.policy, result
        d = lambda holds, rule: self.demand(holds, rule, f"round {a.plan.round} cluster {k}")
        if not d(k < len(a.plan.clusters), "sums"):
            return
        model, members = a.plan.clusters[k]
        b = a.agrees[0][1].body
        who = members & b.survivors
        d(contributors == len(who), "sums")
        dropped = sorted((b.dealers - b.survivors) & members)
        if not d(running is not None and running[1] == who, "sums"):
            return
        if any((u, k) not in a.seeds for u in who) or any(v not in a.secrets for v in dropped):
            # Not to be recomputed; why not is a violation of its own.
            return
        words = running[0]
        for u in who:
            seed = hkdf(a.R, a.seeds[(u, k)], HL("self-seed", u32(u), u16(k), model))
            words = [x - y for x, y in zip(words, mask_words(seed, len(words)))]
        for v in dropped:
            for u in who:
                shared = encode_point(mul(a.secrets[v], decode_point(a.keys[u].body.mask)))
                info = HL("pair-seed", u16(k), model, u32(min(u, v)), u32(max(u, v)))
                sign = -1 if u < v else 1
                words = [x + sign * y for x, y in zip(words, mask_words(hkdf(a.R, shared, info), len(words)))]
        words = [x % (1 << p.bits) for x in words]
        mine = chunk_root(pack(words, p.bits), len(words), p.bits)
        d(mine == root, "sums")
        d(words[-1] == weight, "sums")
        entry = {"round": a.plan.round, "attempt": a.plan.attempt, "cluster": k, "contributors": len(who)}
        entry.update(weight=words[-1], sum=mine.hex(), model=None)
        if d(model in models, "models"):
            moved = successor(models[model], words, contributors, p)
            if d(model_digest(moved) == new, "models"):
                models[new] = moved
                entry["model"] = new.hex()
        self.sums.append(entry)


# --- 10. Files of other tiers -----------------------------------------------------------------------------------------


class Subset:
    def __init__(self, audit, parts):
        self.audit, self.parts = audit, parts
        self.of = lambda tag: [payload for kind, payload in parts if kind == tag]

    def admits(self, kind, signer, body):
        if kind == "policy" or self.tier == 3 and kind == "plan":
            return True
        if self.tier != 1:
            return False
        about = body.client if kind in ("member", "late") else None
        mine = about == self.own or (about is None or signer[0] == "client") and signer == ("client", self.own)
        return kind in ("plan", "agree", "sums", "aborted") or mine

    def run(self):
        tier = self.of("T")[0]
        self.tier, self.own = tier[0], int.from_bytes(tier[1:], "little")
        if self.tier not in (0, 1, 3) or self.tier != 1 and self.own:
            raise Unreadable("an unknown tier")
        self.note = read_head(self.of("C")[0])
        extension = [hashes(payload) for payload in self.of("K")]
        shown = [self.statement(payload) for payload in self.of("P")]
        leaves = [(int.from_bytes(x[:8], "little"), x[8:40], hashes(x[40:])) for x in self.of("L")]
        for numbers in ([e.index for e in shown], [index for index, *_ in leaves]):
            if any(x >= y for x, y in zip(numbers, numbers[1:])):
                raise Unreadable("not ascending")
        descriptors = [self.descriptor(payload) for payload in self.of("N")]
        d, size, root = self.audit.demand, *self.note.head
        for index, leaf, proof in [(e.index, e.leaf, e.proof) for e in shown] + leaves:
            d(index < size and included(leaf, index, size, proof, root), "entries", f"entry {index} is not in the log")
        for e in shown:
            d(e.body is not None, "entries", f"entry {e.index} is not canonical")
        entries = [e for e in shown if e.body is not None]
        server = None
        if self.enrolment(entries):
            server = self.policy.server
            d(self.audit.is_servers(self.note, server), "head", "another log or key, or signature")
            self.signatures(entries)
            self.story(entries)
        for x in descriptors:
            d(x[:3] == descriptors[0][:3], "descriptors", "of another encoder, noise or length")
        d(len({x[3] for x in descriptors}) == len(descriptors), "descriptors", "one client twice")
        cosigned = next(iter(self.of("W")), None)
        if server is None and self.audit.witnesses is None:
            return
        had = lambda head: extends(head, self.note.head, extension[0])
        self.audit.witnessed(cosigned, server or bytes(32), had)

    def statement(self, data):
        index, count = int.from_bytes(data[:8], "little"), data[8]
        proof, entry = data[9 : 9 + 32 * count], data[9 + 32 * count :]
        if len(proof) != 32 * count or len(entry) > 65535:
            raise Unreadable("a proven statement of a wrong length")
        try:
            e = read_entry(entry)
            e.body = read_body(e.kind, e.raw)
        except Malformed:
            return Body(index=index, proof=hashes(proof), leaf=H(b"\0" + entry), body=None)
        e.index, e.proof = index, hashes(proof)
        if not self.admits(e.kind, e.signer, e.body):
            raise Unreadable(f"the tier must not hold a {e.kind} statement")
        return e

    def descriptor(self, data):
        number, source, noise, rest = data[:16], data[16:48], struct.unpack("<dd", data[48:64]), data[68:]
        sound = all(math.isfinite(x) and x >= 2.2250738585072014e-308 for x in noise)
        if self.tier != 3 or not sound:
            raise Unreadable("the tier must not hold a descriptor, or one without noise")
        if len(rest) != 8 * int.from_bytes(data[64:68], "little"):
            raise Unreadable("a descriptor of a wrong length")
        values = struct.unpack(f"<{len(rest) // 4}f", rest)
        self.audit.demand(all(map(math.isfinite, values)), "descriptors", "no numbers")
        return source, noise, len(rest), number

    def enrolment(self, entries):
        d = lambda holds, what: self.audit.demand(holds, "enrolment", what)
        policies = [e for e in entries if e.kind == "policy"]
        if not d(policies, "no policy"):
            return False
        p = self.policy = policies[0].body
        self.policy_leaf = policies[0].leaf
        d(len(policies) == 1 and policies[0].signer == AUTHORITY and p.name == self.audit.name, "policy")
        d(policies[0].index == p.clients and valid_key(p.server), "policy's place or key")
        self.audit.safe(p, d)
        members = [e for e in entries if e.kind == "member"]
        self.member = members[-1].body if members else None
        d(len(members) == (self.tier == 1), "members")
        for e in members:
            place = e.body.client == e.index < p.clients
            d(e.signer == AUTHORITY and place and valid_key(e.body.key), "member")
            d(e.body.client == self.own, "another member")
        return True

    def signatures(self, entries):
        for e in entries:
            d = lambda holds, what: self.audit.demand(holds, "signatures", f"entry {e.index}: {what}")
            by_server = e.kind in ("plan", "sums", "late", "aborted")
            want = "authority" if e.kind in ("member", "policy") else "server" if by_server else "client"
            d(e.signer[0] == want, "another's to sign")
            key = {"authority": self.audit.authority, "server": self.policy.server}.get(e.signer[0])
            if e.signer[0] == "client" and self.member and e.signer[1] == self.member.client:
                key = self.member.key
            if key is not None:
                message = L("statement/" + e.kind) + self.audit.federation + e.message
                d(signed(key, message, e.signature), "signature")

    def story(self, entries):
        rounds = []
        for e in entries:
            b = e.body
            d = lambda holds, what: self.audit.demand(holds, "plan", f"entry {e.index}: {what}")
            if e.kind == "plan":
                now = (b.round, b.attempt)
                d(b.policy == self.policy_leaf and 1 <= b.round <= self.policy.rounds, "policy or round")
                d(not rounds or rounds[-1].now < now, "out of turn")
                d(b.head[0] == e.index, "head")
                rounds.append(Body(now=now, plan=b, leaf=e.leaf, agree=None, sums=None, said=set()))
                continue
            if e.kind == "descriptor":
                d(b.policy == self.policy_leaf, "another policy")
                continue
            if e.kind in ("member", "policy") or not d(rounds, "before any plan"):
                continue
            r = rounds[-1]
            if e.kind not in ("complaint", "late") and not (e.kind == "agree" and e.signer != ("client", self.own)):
                d(e.kind not in r.said, "again")
                r.said.add(e.kind)
            if e.kind in ("late", "aborted"):
                d((b.round, b.attempt) == r.now, "another attempt")
            elif e.kind == "reveal":
                d(r.agree is not None and r.agree.digest == b.agreement, "another agreement")
            else:
                d(b.plan == r.leaf, "another plan")
            if e.kind == "keys":
                d(b.head == r.plan.head, "another head")
            if e.kind == "agree":
                message = L("proposal") + self.audit.federation + b.digest
                d(signed(self.policy.server, message, b.server), "not proposed")
                d(r.agree is None or r.agree.digest == b.digest, "two agreements")
                r.agree = r.agree or b
            if e.kind == "sums":
                r.sums = b
        for r in rounds:
            d = lambda holds, what: self.audit.demand(holds, "agreement", f"round {r.now}: {what}")
            if r.sums is None or not d(r.agree is not None, "none"):
                continue
            d(r.sums.agreement == r.agree.digest, "sums of another")
            d([k for k, *_ in r.sums.results] == r.agree.release, "other clusters opened")
            for k, _, contributors, weight, model in r.sums.results:
                inside = k < len(r.plan.clusters)
                d(inside and contributors == len(r.plan.clusters[k][1] & r.agree.survivors), "contributors")
                entry = {"round": r.now[0], "attempt": r.now[1], "cluster": k, "contributors": contributors}
                self.audit.sums.append({**entry, "weight": weight, "model": None})


def verdict(federation, authority, data, witnesses=None, keep=None):
    audit = Audit(federation, authority, witnesses, keep)
    try:
        audit.run(data)
    except Unreadable as error:
        return {"overall": "unreadable", "reason": str(error), "rules": [], "sums": []}
    rules = sorted({rule for rule, _ in audit.violations})
    out = {"overall": "violated" if rules else "verified", "rules": rules, "sums": audit.sums}
    out["reasons"] = [f"{rule}: {what}" for rule, what in audit.violations[:40]]
    return out


def main(words):
    options = {}
    known = ("--federation", "--authority", "--witnesses", "--since", "--keep-rounds")
    while len(words) > 1 and words[0] in known:
        options[words[0]] = words[1]
        words = words[2:]
    if not {"--federation", "--authority"} <= set(options) or len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    federation, authority = options["--federation"], bytes.fromhex(options["--authority"])
    asked = {"keep": int(options["--keep-rounds"]) if "--keep-rounds" in options else None}
    if "--witnesses" in options:
        with open(options["--witnesses"], encoding="utf-8") as file:
            asked["witnesses"] = Witnesses(file.read(), int(options.get("--since", 0)))
    if words[0] == "--stream":
        while len(size := sys.stdin.buffer.read(4)) == 4:
            data = sys.stdin.buffer.read(int.from_bytes(size, "little"))
            print(json.dumps(verdict(federation, authority, data, **asked)), flush=True)
        return 0
    with open(words[0], "rb") as file:
        out = verdict(federation, authority, file.read(), **asked)
    print(json.dumps(out, indent=2))
    return 0 if out["overall"] == "verified" else 6


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
