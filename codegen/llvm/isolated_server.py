"""The process that may die: answers requests of `isolated` until its socket closes. Run with the number of the socket."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
from typing import Any, BinaryIO, Final

from tensorlang.codegen.llvm import binding, features
from tensorlang.codegen.llvm.binding import TargetMachine
from tensorlang.codegen.llvm.pipelines import Passes
from tensorlang.errors import BuildError, InternalError

MEMORY: Final = 4 << 30
"""Bytes of address space."""


def serve(connection: socket.socket) -> None:
    """Answer until the other side is gone."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most), most))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks decides
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    stream = connection.makefile("rb")
    while line := stream.readline():
        request = json.loads(line)
        signal.alarm(int(request["limit"]) + 5)  # it ends us in the middle of LLVM, should nobody be there to do it
        status, found = _answered(request, stream)
        signal.alarm(0)
        try:
            connection.sendall(json.dumps({"status": status, "size": len(found)}).encode() + b"\n" + found)
        except OSError:
            return


def _answered(request: dict[str, Any], stream: BinaryIO) -> tuple[str, bytes]:
    text = stream.read(request["size"]).decode()
    try:
        return "ok", _done(request["kind"], request["words"], text)
    except BuildError as error:
        return "refused", str(error).encode()
    except MemoryError:
        os._exit(1)
    except InternalError as error:
        return "failed", str(error).encode()
    except Exception as error:  # noqa: BLE001 - it is told to whoever asked
        return "failed", f"{type(error).__name__}: {error}".encode()


def _done(kind: str, words: list[str], text: str) -> bytes:
    match kind, words:
        case "compile", [triple, cpu, names, passes]:
            return binding.compile_module(text, TargetMachine(triple, cpu, names), Passes(*json.loads(passes))).object
        case "llvm" | "asm", [triple, cpu, names, passes]:
            return binding.render(
                text, TargetMachine(triple, cpu, names), "llvm" if kind == "llvm" else "asm", Passes(*json.loads(passes))
            ).encode()
        case "names", [triple]:
            binding.print_names(triple)
            return b""
        case "probe", [triple, arch, cpu, extra]:
            found = features.probe(triple, arch, cpu, extra)
            binding.compile_module(
                "define double @f(double %x) {\n %y = fadd double %x, %x\n ret double %y\n}", TargetMachine(triple, cpu, extra)
            )
            return json.dumps(found).encode()
    raise ValueError(kind)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
