# A bulk lane as another program serves it: an insider that is asked for a state answers with floats of its choice.
"""A listener that a peer is invited to dial, over TCP or, with memory of the insider's, over a Unix socket."""
import fcntl
import hashlib
import os
import socket
import struct
import threading

from wire import token

BLOCK_BYTES = 256 * 1024
BLOCK, LENT_BLOCK = 1, 5  # Kinds of records.
RING_BYTES, LENT_BYTES = 2 * 320 * 1024, 1 << 36
SEALS = 0x0002 | 0x0004 | 0x0001  # Against shrinking, growing and further seals.
ADD_SEALS, MFD_HUGETLB = 1033, 0x0004


def proof(secret, lane, dialled):
    text = struct.pack("<QB", lane, 1 if dialled else 2)
    return b"G\1" + bytes(6) + struct.pack("<Q", lane) + hashlib.blake2b(text, digest_size=32, key=secret).digest()


def host_tag():
    """The tag by which a peer knows its own host, where a Unix socket will do."""
    boot = open("/proc/sys/kernel/random/boot_id").read().strip()
    text = f"{boot}/{os.stat('/proc/self/ns/net').st_ino}".encode()
    return struct.unpack("<Q", hashlib.blake2b(text, digest_size=16).digest()[:8])[0]


def sealed_file(size, flags=0):
    file = os.memfd_create("lent", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | flags)
    os.ftruncate(file, size)
    fcntl.fcntl(file, ADD_SEALS, SEALS)
    return file


def record(kind, length, transfer, offset):
    return struct.pack("<IHHQQQQIB3x", length, 2, kind, transfer["owner"], transfer["session"], transfer["number"],
                       offset, transfer["stage"], transfer["kind"])


class StateServer:
    """Answers requests for a state. With `lent`, the size of whose pages is up to the caller, a peer of this host is
    told to read the state from there; otherwise floats are sent over TCP."""

    def __init__(self, data=b"", lent=None, folder=None):
        self.data, self.lent, self.reached = data, lent, 0
        self.invited = {}  # By the number of the lane: its token, the transfer and the bytes that were asked for.
        self.listener = socket.socket(socket.AF_UNIX if lent else socket.AF_INET)
        self.listener.bind(str(folder / "lane-1-1") if lent else ("127.0.0.1", 0))
        self.listener.listen(8)
        self.listener.settimeout(10)

    def answer(self, link, request, version, elements):
        """Accepts a request that came over this link, and serves it on a lane in a thread of its own."""
        secret, lane = token(), 2**40 + len(self.invited)
        self.invited[lane] = secret, request["id"], 4 * elements
        threading.Thread(target=self.serve, daemon=True).start()
        link.send("TransferAccepted", id=request["id"], layout_hash=request["layout_hash"], elements=elements,
                  version=version)
        where = self.listener.getsockname()
        if self.lent:
            link.send("LaneInvite", lane=lane, token=secret, unix_path=where, host=host_tag())
        else:
            link.send("LaneInvite", lane=lane, token=secret, address=f"127.0.0.1:{where[1]}")

    def serve(self):
        try:
            link, _ = self.listener.accept()
            with link:
                link.settimeout(10)
                # Descriptors that come along are closed by the system, as nothing here takes them.
                proved = link.recv(48, socket.MSG_WAITALL)
                lane = struct.unpack_from("<Q", proved, 8)[0]
                secret, transfer, size = self.invited[lane]
                if proved != proof(secret, lane, True):
                    return
                self.reached += 1
                if self.lent:
                    socket.send_fds(link, [proof(secret, lane, False)], [sealed_file(RING_BYTES), self.lent])
                else:
                    link.sendall(proof(secret, lane, False))
                for offset in range(0, size, BLOCK_BYTES):
                    length = min(BLOCK_BYTES, size - offset)
                    if self.lent:
                        link.sendall(record(LENT_BLOCK, length, transfer, offset) + struct.pack("<Q", offset))
                    else:
                        link.sendall(record(BLOCK, length, transfer, offset) + self.data[offset:offset + length])
                while link.recv(4096):  # Until the peer closes.
                    pass
        except (OSError, KeyError, struct.error):
            return
