"""Which names a C or C++ program can call a function or an argument by.

C reserves the names of its library for functions with external linkage (C99, 7.1.3), every identifier that begins with an underscore in
some scope, and its keywords; C++ reserves more keywords and all that hold two underscores in a row. A kernel that took one of them would
compile here and fail, or call something else, where it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tensorlang.errors import BuildError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


C_KEYWORDS: Final = _words(
    """
    alignas alignof auto bool break case char const constexpr continue default do double else enum extern false float for goto if
    inline int long nullptr register restrict return short signed sizeof static static_assert struct switch thread_local true typedef
    typeof typeof_unqual union unsigned void volatile while
    """
)
"""The keywords of C99 to C23, which are not all of C++."""

KEYWORDS: Final = C_KEYWORDS | _words(
    """
    and and_eq asm atomic_cancel atomic_commit atomic_noexcept bitand bitor catch char8_t char16_t char32_t class compl concept
    consteval constinit const_cast contract_assert co_await co_return co_yield decltype delete dynamic_cast explicit export friend
    mutable namespace new noexcept not not_eq operator or or_eq private protected public reinterpret_cast requires static_cast
    synchronized template this throw try typeid typename using virtual wchar_t xor xor_eq
    """
)
"""The keywords of C99 to C23 and of C++98 to C++26."""

LIBRARY: Final = _words(
    """
    abort abs acos acosh aligned_alloc asctime asin asinh assert atan atan2 atanh atexit atof atoi atol atoll bsearch calloc cbrt ceil clock
    copysign cos cosh ctime difftime div errno erf erfc exit exp exp2 expm1 fabs fclose fdim feof ferror fflush fgetc fgetpos fgets floor
    fma fmax fmin fmod fopen fpclassify fprintf fputc fputs fread free freopen frexp fscanf fseek fsetpos ftell fwrite getc getchar
    getenv gets gmtime hypot ilogb imaxabs imaxdiv isalnum isalpha isblank iscntrl isdigit isfinite isgraph isinf islower isnan
    isnormal isprint ispunct isspace isupper isxdigit labs ldexp ldiv lgamma llabs lldiv llrint llround localeconv localtime log
    log10 log1p log2 logb longjmp lrint lround malloc mblen mbstowcs mbtowc memchr memcmp memcpy memmove memset mktime modf nan
    nearbyint nextafter nexttoward perror pow printf putc putchar puts qsort raise rand realloc remainder remove remquo rename rewind
    rint round scalbln scalbn scanf setbuf setjmp setlocale setvbuf signal signbit sin sinh snprintf sprintf sqrt srand sscanf
    stderr stdin stdout strcat strchr strcmp strcoll strcpy strcspn strerror strftime strlen strncat strncmp strncpy strpbrk strrchr
    strspn strstr strtod strtof strtok strtol strtold strtoll strtoul strtoull strxfrm system tan tanh tgamma time tmpfile tmpnam
    trunc ungetc va_arg va_end va_start vprintf wcslen wctomb
    """
)
"""Functions and macros of the C library that no program may define; those of its mathematics have variants in `f` and `l`."""

SYSTEM: Final = _words(
    """
    accept access alarm bind brk chdir chmod chown close connect creat dup dup2 execl execv fchmod fork fsync ftruncate gamma getcwd getopt
    getpid getuid index ioctl j0 j1 jn kill link listen lseek mkdir mmap mprotect munmap nice open optarg optind pause pipe poll pread
    pwrite read readlink readv recv rindex rmdir sbrk select send shutdown signgam sleep socket stat strdup symlink sync sysconf truncate
    umask uname unlink usleep utime wait write writev y0 y1 yn
    """
)
"""Functions of POSIX, which live in the same library and are declared beside those of C."""

MACROS: Final = re.compile(
    r"U?INT((_LEAST|_FAST)?\d+|PTR|MAX)_(MAX|MIN|C|WIDTH)|(SIZE|PTRDIFF|SIG_ATOMIC|WCHAR|WINT)_(MAX|MIN|WIDTH)|linux|unix|i386|mips"
)
"""Macros of <stdint.h>, which the header includes, and those that compilers define by themselves outside of what C reserves."""

TYPES: Final = _words("DLTensor NULL int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t size_t main")
"""What the header itself speaks of, and the name of every program's first function."""

LONGEST: Final = 200
"""Letters of a name."""
_IDENTIFIER: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{LONGEST - 1}}}")


def why_unusable(name: str) -> str | None:
    """Why no function can be called so, whoever calls it; None where one can."""
    if not _IDENTIFIER.fullmatch(name):
        return f"use letters, digits and _, at most {LONGEST}, no digit first"
    if name in KEYWORDS:
        return f"it is a keyword of {'C' if name in C_KEYWORDS else 'C++'}"
    return "every program has its own" if name == "main" else None


def why_reserved(name: str, *, external: bool = True) -> str | None:
    """Why neither C nor C++ lets a program have this name, for a function or (not `external`) for an argument; None where they do."""
    if not _IDENTIFIER.fullmatch(name):
        return "it is no identifier of C"
    if name in KEYWORDS:
        return why_unusable(name)
    if name in TYPES:
        return "every program has its own" if name == "main" else "the header uses it"
    if MACROS.fullmatch(name):
        return "it is a macro of C"
    if name.startswith("_") or "__" in name:
        return "C or C++ reserves names with such underscores"
    if external and (name in LIBRARY | SYSTEM or (name[-1] in "fl" and name[:-1] in LIBRARY)):
        return "the C library has a function of this name"
    if name.lower().startswith("tensorlang_"):
        return "the header uses names that begin so"
    return None


def require(name: str, arguments: Iterable[str]) -> None:
    """Raise `BuildError` where a kernel, or an argument of it, has a name that C or C++ reserves."""
    if (reason := why_reserved(name)) is not None:
        raise BuildError(f"the kernel {name!r} cannot be exported under this name: {reason}; build it with name=")
    taken = set()
    for argument in arguments:
        reason = why_reserved(argument, external=False)
        if reason is None and argument in taken:
            reason = "another argument has the same"
        if reason is not None:
            raise BuildError(f"the kernel {name!r} cannot be exported: its argument {argument!r} needs another name, as {reason}")
        taken.add(argument)
