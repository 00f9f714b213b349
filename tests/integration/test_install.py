#!/usr/bin/env python3
# cmake-once
# cmake-of: docs examples include
# cmake-timeout: 600
"""An installed Plumb is all that a user's program needs: the examples, copied out of the tree, are built with
CMake and with a compiler and pkg-config alone, with gcc and clang, run under `plumb record`, and each event arrives
with exactly the values that the program says it traced: from executables, shared libraries, a plug-in that is loaded
and unloaded while tracing, and a static executable."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
import pretty  # noqa: E402

ROUNDS = 60
WARNINGS = "-Wall -Wextra -Werror"


def run(*command, **options):
    """The standard output of a command that must succeed."""
    result = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, check=False, **options)
    assert result.returncode == 0, (f"{' '.join(map(str, command))}: status {result.returncode}\n"
                                    f"{result.stdout}\n{result.stderr}")
    return result.stdout


class Installation:
    def __init__(self, folder):
        self.prefix = folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", self.prefix)
        packages = [path.parent for path in self.prefix.rglob("plumb.pc")]
        assert len(packages) == 1, packages
        self.libdir = packages[0].parent
        self.environment = {**os.environ, "PKG_CONFIG_PATH": str(packages[0])}
        self.plumb = self.prefix / "bin/plumb"

    def flags(self, *arguments):
        return run("pkg-config", *arguments, env=self.environment).split()

    def check_files(self):
        for name in ("tp-sync.o", "tp-async.o", "tp-async-lib.o", "libplumb-pthread.so"):
            assert (self.libdir / "plumb" / name).is_file(), name
        for name in ("libplumb.so", "libplumb.so.0", "libplumb.a"):
            assert (self.libdir / name).exists(), name
        for name in ("bash-completion/completions/plumb", "zsh/site-functions/_plumb", "fish/vendor_completions.d/plumb.fish",
                     "man/man1/plumb.1", "man/man1/plumb-record.1", "man/man7/plumb-kernel.7", "man/man7/plumb-from-lttng.7"):
            assert (self.prefix / "share" / name).is_file(), name
        assert run(self.plumb, "--version").startswith("plumb ")

    def check_links(self):
        pages = list((self.prefix / "share/doc/plumb").rglob("*.md"))
        assert len(pages) > 10, pages
        dead = [(page.name, link) for page in pages for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
                if not (page.parent / link).is_file()]
        assert not dead, dead

    def check_library(self):
        """Only the public names, all versioned, and nothing of the C++ run-time library."""
        library = self.libdir / "libplumb.so"
        symbols = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
        assert symbols, "libplumb.so exports nothing"
        for symbol in symbols:
            is_public = symbol.startswith("plumb_") and symbol.endswith("@@PLUMB_1")
            assert is_public or symbol in ("PLUMB_1", "vfork", "prctl", "syscall", "sigaltstack"), symbol
        dynamic = run("readelf", "-d", library)
        assert "[libplumb.so.0]" in dynamic and "NODELETE" in dynamic and "NOW" in dynamic, dynamic
        needed = [line.split("[")[1].rstrip("]\n") for line in dynamic.splitlines() if "(NEEDED)" in line]
        assert set(needed) <= {"libc.so.6", "ld-linux-x86-64.so.2"}, needed
        for path in [self.libdir / "libplumb.a", *(self.libdir / "plumb").glob("*.o")]:
            undefined = [line.split()[-1] for line in run("nm", "-u", path).splitlines() if " U " in line]
            for symbol in undefined:
                assert not symbol.startswith(("_ZNSt", "_ZSt", "__cxa_", "__gxx")), f"{path} needs {symbol}"


def expected_events(output):
    for line in output.splitlines():
        if line.startswith('{"event"'):
            event = json.loads(line)
            yield event["event"], event["fields"]


def same_in_babeltrace(wanted, got):
    """babeltrace2 shows six digits of a float, and those as text here."""
    if isinstance(got, pretty.Label):
        return wanted == got.value
    if isinstance(wanted, (int, float)) and isinstance(got, str):
        return float(f"{wanted:g}") == float(got)
    return wanted == got


def check_trace(what, output, trace, providers):
    wanted = list(expected_events(output))
    assert len(wanted) > ROUNDS, f"{what}: printed only {len(wanted)} events"
    got = [event for event in pretty.events(trace) if event[0].split(":")[0] in providers]
    assert len(got) == len(wanted), f"{what}: traced {len(wanted)} events, babeltrace2 reads {len(got)}"
    for index, ((name, fields), (read_name, read_fields)) in enumerate(zip(wanted, got)):
        assert name == read_name, f"{what}: event {index} is {read_name}, traced was {name}"
        for field, value in fields.items():
            assert field in read_fields, f"{what}: {name}: no field {field} in {read_fields}"
            assert same_in_babeltrace(value, read_fields[field]), \
                f"{what}: event {index}, {name}.{field}: {read_fields[field]!r}, traced was {value!r}"
    labels = {field.label for _, fields in got for field in fields.values() if isinstance(field, pretty.Label)}
    assert labels and "<unknown>" not in labels, f"{what}: labels {labels}"
    return wanted


def check_view(what, plumb, trace, wanted, providers):
    """`plumb view --json` shows every digit."""
    got = []
    for line in run(plumb, "view", "--json", trace).splitlines():
        event = json.loads(line)
        if event["event"].split(":")[0] in providers:
            got.append((event["event"], event["fields"]))
    assert len(got) == len(wanted), f"{what}: traced {len(wanted)} events, plumb view shows {len(got)}"
    for (name, fields), (read_name, read_fields) in zip(wanted, got):
        assert name == read_name, f"{what}: plumb view: {read_name}, traced was {name}"
        for field, value in fields.items():
            read = read_fields[field]
            if isinstance(read, dict):
                read = read["value"]
            assert read == value, f"{what}: plumb view: {name}.{field}: {read!r}, traced was {value!r}"


def record(installed, what, folder, command, providers, environment=None):
    trace = folder / "trace"
    shutil.rmtree(trace, ignore_errors=True)
    output = run(installed.plumb, "record", "-o", trace, *(f"-e{provider}:*" for provider in providers), "--",
                 *command, "--count", ROUNDS, "--print", env={**os.environ, **(environment or {})}, cwd=folder)
    wanted = check_trace(what, output, trace, providers)
    check_view(what, installed.plumb, trace, wanted, providers)
    print(f"{what}: {len(wanted)} events, all values equal")


def build_with_cmake(installed, folder):
    run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={installed.prefix}",
        f"-DCMAKE_C_FLAGS={WARNINGS}", f"-DCMAKE_CXX_FLAGS={WARNINGS}")
    run("cmake", "--build", folder / "build")
    return folder / "build"


def compile_with(compiler, flags, output, source, *more):
    run(compiler, "-O2", *WARNINGS.split(), *flags[0], "-o", output, source, *more, *flags[1], cwd=output.parent)


def by_hand(installed, folder, compilers, source, library_source, library, program):
    """`cc` and pkg-config alone, as the READMEs of the examples say."""
    compiler, options = compilers
    rpath = f"-Wl,-rpath,$ORIGIN:{installed.libdir}"
    shared = [*options, "-fPIC", "-shared"], installed.flags("--cflags", "--libs", "plumb-async-lib")
    plain = options, installed.flags("--cflags", "--libs", "plumb-async")
    if library:
        compile_with(compiler, shared, folder / f"lib{library}.so", library_source, rpath)
        compile_with(compiler, plain, folder / program, source, "-L.", f"-l{library}", rpath)
    else:
        compile_with(compiler, plain, folder / program, source, rpath)
    return folder / program, shared, rpath


def check_c(installed, folder, compiler):
    program, shared, rpath = by_hand(installed, folder, (compiler, []), "main.c", "depot.c", "depot", "c-service")
    compile_with(compiler, shared, folder / "plugin.so", "plugin.c", rpath)
    record(installed, f"c-service, {compiler}", folder, [program, "--plugin", "./plugin.so"], ["parcel"])


def check_cpp(installed, folder, compiler):
    program, _, _ = by_hand(installed, folder, (compiler, ["-std=c++17"]), "main.cc", "library.cc", "kiosk",
                            "cpp-service")
    record(installed, f"cpp-service, {compiler}", folder, [program], ["kiosk"])


def check_static(installed, folder, compiler):
    flags = ["-static"], installed.flags("--static", "--cflags", "--libs", "plumb-async")
    compile_with(compiler, flags, folder / "static-service", "main.c")
    headers = run("readelf", "-l", folder / "static-service")
    assert "INTERP" not in headers and "DYNAMIC" not in headers, "static-service is not static"
    assert "GNU_EH_FRAME" in headers, "static-service has call stacks that can not be walked"
    record(installed, f"static-service, {compiler}", folder, [folder / "static-service"], ["buoy"])


def check_musl(installed, folder):
    """musl registers no restartable sequences: the fallback path, in a static executable of another libc."""
    if not shutil.which("musl-gcc"):
        print("musl-gcc is not installed: not tried")
        return
    check_static(installed, folder, "musl-gcc")


def check_completion(installed):
    """What bash offers behind `plumb ` and `plumb record --`."""
    completion = installed.prefix / "share/bash-completion/completions/plumb"
    script = f"""source {completion}
        offer() {{ COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _plumb; printf '%s\\n' "${{COMPREPLY[@]}}"; echo -; }}
        offer {installed.plumb} ''
        offer {installed.plumb} record --
        offer {installed.plumb} record --mode o"""
    subcommands, options, modes = (part.split() for part in run("bash", "-c", script).split("\n-\n")[:3])
    assert {"record", "list", "view", "doctor"} <= set(subcommands), subcommands
    assert {"--preload", "--mode", "--json", "--force"} <= set(options), options
    assert modes == ["overwrite"], modes


def main():
    with tempfile.TemporaryDirectory(prefix="plumb-install-") as name:
        folder = pathlib.Path(name)
        installed = Installation(folder)
        installed.check_files()
        installed.check_links()
        installed.check_library()
        check_completion(installed)
        examples = folder / "examples"
        shutil.copytree(SOURCE / "examples", examples)

        build = build_with_cmake(installed, examples / "c-service")
        record(installed, "c-service, CMake", examples, [build / "c-service", "--plugin", build / "libplugin.so"],
               ["parcel"])
        build = build_with_cmake(installed, examples / "cpp-service")
        record(installed, "cpp-service, CMake", examples, [build / "cpp-service"], ["kiosk"])
        build = build_with_cmake(installed, examples / "static")
        record(installed, "static-service, CMake", examples, [build / "static-service"], ["buoy"])

        for c_compiler, cpp_compiler in (("gcc", "g++"), ("clang", "clang++")):
            if not shutil.which(c_compiler):
                print(f"{c_compiler} is not installed: not tried")
                continue
            check_c(installed, examples / "c-service", c_compiler)
            check_cpp(installed, examples / "cpp-service", cpp_compiler)
            check_static(installed, examples / "static", c_compiler)
        check_musl(installed, examples / "static")


if __name__ == "__main__":
    main()
