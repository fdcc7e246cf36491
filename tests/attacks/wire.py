# The control link of one peer as another program speaks it: frames by the declarations in the C++ headers, over CURVE.
"""Frames are packed from dictionaries by the structs of the project's own headers, so no second list of fields exists.

A field that is left out is zero or empty. `docs/wire-format.md` describes the same bytes in words.
"""
import base64
import hashlib
import os
import pathlib
import re
import struct
import time

import nacl.signing
import zmq
import zmq.utils.z85

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ("consensus/message/message.hpp", "consensus/message/transfer_id.hpp", "consensus/message/snapshot.hpp", "consensus/message/signer.hpp",
           "consensus/membership/statement.hpp", "consensus/generation/equivocation.cpp",
           "net/control_links.hpp", "net/wire.hpp")
NUMBERS = {"std::uint8_t": "B", "std::uint16_t": "H", "std::uint32_t": "I", "std::uint64_t": "Q", "std::int64_t": "q",
           "float": "f", "bool": "?", "PeerId": "Q"}
# The only struct whose bytes are not in the order of its declaration.
ORDERS = {"TransferId": ("kind", "owner", "session", "number", "stage")}
HELLO, INVITE, FIRST_MESSAGE = 1, 2, 16
MOST = 2**64 - 1
# The first bytes of what a key signs, by the name of the subject.
DOMAINS = dict(re.findall(r'(\w+)_domain\[\] = "(.*)"', "".join((ROOT / header).read_text() for header in HEADERS)))


def declarations():
    """Structs as {name: {field: type}}, other names of types, the kinds of messages, the structs with varints, and the version
    of the wire."""
    text = re.sub(r"//[^\n]*", "", "".join((ROOT / header).read_text() for header in HEADERS))
    names = dict(re.findall(r"enum class (\w+) : ([\w:]+)", text))
    names |= {name: " ".join(kind.split()) for name, kind in re.findall(r"\nusing (\w+) =([^;]+);", text)}
    structs = {}
    for name, body in re.findall(r"\nstruct (\w+) \{(.*?)\n\};", text, re.DOTALL):
        fields = {}
        for line in body.split(";"):
            field = re.fullmatch(r"[}\s]*([\w:]+(?:<[^()=]*>)?) (\w+)(?:\{\}| = [^()]*)?\s*", line)
            if field and field[1] not in ("return", "using"):
                fields[field[2]] = field[1]
        structs[name] = {field: fields[field] for field in ORDERS.get(name, fields)}
    messages = re.search(r"std::variant<([^>]*)>", names["MessageVariant"])[1].replace(" ", "").split(",")
    kinds = {"Hello": HELLO, "LaneInvite": INVITE} | {name: FIRST_MESSAGE + i for i, name in enumerate(messages)}
    varints = {name for name, body in re.findall(r"\nstruct (\w+) \{(.*?)\n\};", text, re.DOTALL) if "has_varints" in body}
    return structs, names, kinds, varints, int(re.search(r"wire_version = (\d+)", text)[1])


STRUCTS, NAMES, KINDS, VARINTS, VERSION = declarations()


def parts(kind):
    """The template of a type and its arguments: std::pair<A, B> is ("pair", ["A", "B"])."""
    found = re.fullmatch(r"std::(vector|optional|array|pair)<(.*)>", kind)
    if not found:
        return None, []
    # A comma inside of a nested template does not part arguments.
    return found[1], [part.strip() for part in re.split(r",(?![^<]*>)", found[2])]


def pack_varint(number):
    """The bytes of a number in groups of seven bits."""
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def unpack_varint(data):
    size = next(i for i, byte in enumerate(data) if byte < 0x80) + 1
    return sum((byte & 0x7F) << 7 * i for i, byte in enumerate(data[:size])), data[size:]


def pack_with_varints(kind, value):
    """The bytes of a field of a struct with varints."""
    if kind == "std::uint64_t":
        return pack_varint(value or 0)
    if kind.startswith("std::vector"):
        return pack_varint(len(value or ())) + b"".join(pack(parts(kind)[1][0], item) for item in value or ())
    return pack(kind, value)


def unpack_with_varints(kind, data):
    if kind == "std::uint64_t":
        return unpack_varint(data)
    if kind.startswith("std::vector"):
        length, data = unpack_varint(data)
        values = []
        for _ in range(length):
            value, data = unpack(parts(kind)[1][0], data)
            values.append(value)
        return values, data
    return unpack(kind, data)


def pack(kind, value=None):
    """The bytes of a value of a C++ type; None is what that type begins with."""
    kind = NAMES.get(kind, kind)
    template, inner = parts(kind)
    if kind in NUMBERS:
        return struct.pack("<" + NUMBERS[kind], value or 0)
    if kind == "std::string":
        text = value if isinstance(value, bytes) else (value or "").encode()
        return struct.pack("<I", len(text)) + text
    if kind in STRUCTS:
        unknown = set(value or {}) - set(STRUCTS[kind])
        assert not unknown, f"{kind} has no {unknown}"
        pack_field = pack_with_varints if kind in VARINTS else pack
        return b"".join(pack_field(type_, (value or {}).get(field)) for field, type_ in STRUCTS[kind].items())
    if template == "vector":
        return struct.pack("<I", len(value or ())) + b"".join(pack(inner[0], item) for item in value or ())
    if template == "optional":
        return b"\0" if value is None else b"\1" + pack(inner[0], value)
    if template == "array":
        return b"".join(pack(inner[0], item) for item in value or [0] * int(inner[1]))
    if template == "pair":
        return b"".join(pack(type_, item) for type_, item in zip(inner, value))
    raise TypeError(f"no bytes for {kind}")


def unpack(kind, data):
    """The value of a C++ type at the front of the bytes, and the bytes behind it."""
    kind = NAMES.get(kind, kind)
    template, inner = parts(kind)
    if kind in NUMBERS:
        size = struct.calcsize("<" + NUMBERS[kind])
        return struct.unpack("<" + NUMBERS[kind], data[:size])[0], data[size:]
    if kind == "std::string":
        size = 4 + struct.unpack("<I", data[:4])[0]
        return data[4:size].decode(errors="replace"), data[size:]
    if kind in STRUCTS:
        fields = {}
        unpack_field = unpack_with_varints if kind in VARINTS else unpack
        for field, type_ in STRUCTS[kind].items():
            fields[field], data = unpack_field(type_, data)
        return fields, data
    if template == "optional":
        return unpack(inner[0], data[1:]) if data[0] else (None, data[1:])
    types = inner
    if template == "vector":
        types, data = inner[:1] * struct.unpack("<I", data[:4])[0], data[4:]
    if template == "array":
        types = inner[:1] * int(inner[1])
    values = []
    for type_ in types:
        value, data = unpack(type_, data)
        values.append(value)
    return values, data


def frame(message, /, **fields):
    return bytes([VERSION, KINDS[message]]) + pack(message, fields)


def read(data):
    """The name and the fields of a frame."""
    name = next(name for name, kind in KINDS.items() if kind == data[1])
    fields, rest = unpack(name, data[2:])
    assert not rest, f"{len(rest)} bytes of {name} have no declaration"
    return name, fields


def canonical(domain, kind, fields):
    """The bytes of a struct that are signed or digested."""
    return pack("std::string", DOMAINS[domain]) + pack(kind, fields)


class Key:
    """A key pair in the file that `grapevine keygen` wrote."""

    def __init__(self, path, name):
        self.path, self.name = path, name
        words = dict(line.split()[:2] for line in path.read_text().splitlines() if len(line.split()) >= 2)
        self.line = f"{name} {words['public']}"
        public, secret = (base64.b64decode(words[half].removeprefix("ed25519:") + "=") for half in ("public", "secret"))
        self.public, self.signing = public, nacl.signing.SigningKey(secret)
        # A link is encrypted by the same pair, converted to Curve25519.
        self.curve_public = bytes(self.signing.verify_key.to_curve25519_public_key())
        self.curve_secret = bytes(self.signing.to_curve25519_private_key())
        self.id = struct.unpack("<Q", hashlib.blake2b(public, digest_size=32).digest()[:8])[0]

    def member(self, liar=None, **fields):
        """The entry of this key in a table of members: with its signature, or as a liar with another key makes it up."""
        member = {"id": self.id, "name": self.name, "incarnation": 1, "version": 1} | fields
        stated = {field: member.get(field) for field in STRUCTS["Statement"]}
        return {"signature": (liar or self).sign("statement", "Statement", stated)} | member

    def sign(self, domain, kind, fields):
        return self.signing.sign(canonical(domain, kind, fields)).signature

    def install(self, **generation):
        """The fields of an Install of this generation, with our signature."""
        digest = hashlib.blake2b(canonical("generation", "Generation", generation), digest_size=32).digest()
        ruling = {"ballot": generation["id"], "digest": digest}
        return {"generation": generation, "signature": self.sign("decision", "Ruling", ruling)}


class Insider:
    """A control link to one peer by a key that is on its list, or by a stranger's."""

    def __init__(self, key, peer, context=None, queue=100_000):
        self.key, self.agreement, self.greeting = key, [], None
        self.socket = (context or zmq.Context.instance()).socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, queue)
        self.socket.setsockopt(zmq.SNDTIMEO, 200)
        self.socket.curve_serverkey = zmq.utils.z85.encode(peer.key.curve_public)
        self.socket.curve_publickey = zmq.utils.z85.encode(key.curve_public)
        self.socket.curve_secretkey = zmq.utils.z85.encode(key.curve_secret)
        self.socket.connect(f"tcp://{peer.address}")

    def send(self, message, /, **fields):
        self.send_bytes(frame(message, **fields))

    def send_bytes(self, data):
        """False if the peer takes no more for the moment."""
        try:
            self.socket.send(data)
        except zmq.Again:
            return False
        return True

    def receive(self, *names, seconds=1.0):
        """The fields of the next frame of one of these names, or None."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not self.socket.poll(1000 * left):
                return None
            name, fields = read(self.socket.recv())
            if name in names:
                return fields | {"message": name}
        return None

    def introduce(self, address="", session=7, agreement=None):
        """Says hello, takes the settings from the answer and says hello again with them. Returns whether there was an
        answer."""
        self.send("Hello", name=self.key.name, advertise=address, session=session, agreement=agreement)
        self.greeting = self.receive("Hello", seconds=3)
        if self.greeting and agreement is None:
            self.agreement = self.greeting["agreement"]
            self.send("Hello", name=self.key.name, advertise=address, session=session, agreement=self.agreement)
        return self.greeting is not None

    def join(self, **fields):
        """Enters the peer's table of members."""
        self.send("PushPull", members=[self.key.member(**fields)])

    def close(self):
        self.socket.close(0)


def token():
    return os.urandom(32)
