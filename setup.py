"""Builds the compiled twins; everything else about the package is in pyproject.toml.

They are optional.  Where there is no C compiler the build says so and goes on, and the
readable Python twins do the work.  `OTTLA_BUILD_PURE=1` leaves them out on purpose.
"""

import os

from setuptools import Extension, setup

NATIVE = "src/native"
TWINS = {
    "ottla.wire._interpreter": ["src/ottla/wire/_interpreter.pyx"],
    "ottla.records._codec": ["src/ottla/records/_codec.pyx"],
    "ottla.client.producer._quick": ["src/ottla/client/producer/_quick.pyx"],
}


def compiled_twins() -> list[Extension]:
    """The extension modules, marked optional so that a failed build is only a warning."""
    if os.environ.get("OTTLA_BUILD_PURE"):
        return []
    from Cython.Build import cythonize

    sanitize = os.environ.get("OTTLA_BUILD_SANITIZE")  # "address": see `make asan`
    flags = [f"-fsanitize={sanitize}", "-g", "-O1"] if sanitize else ["-O3"]
    extensions = [
        Extension(
            name,
            sources,
            include_dirs=[NATIVE],
            extra_compile_args=flags,
            extra_link_args=flags[:1] if sanitize else [],
        )
        for name, sources in TWINS.items()
    ]
    compiled = cythonize(
        extensions,
        build_dir="build/cython",
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
        },
    )
    for extension in compiled:
        extension.optional = True  # set here, because cythonize drops it
    return compiled


setup(ext_modules=compiled_twins())
