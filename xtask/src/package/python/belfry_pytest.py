"""pytest --belfry CHIP: runs tests with a GPU that exists in software, and reports what the GPU refused."""

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest

# Set for the pytest that runs under `belfry exec`, which runs the tests.
INSIDE = "BELFRY_PYTEST_INSIDE"


def pytest_addoption(parser):
    group = parser.getgroup("belfry")
    group.addoption("--belfry", metavar="CHIP", help="run the tests under `belfry exec --chip CHIP`")
    group.addoption(
        "--belfry-option",
        metavar="OPTION",
        action="append",
        default=[],
        help="a further option of `belfry exec`, as --belfry-option=--gpus=2; repeatable",
    )


def program():
    """The `belfry` beside this Python, or that of PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "belfry")
    found = beside if os.access(beside, os.X_OK) else shutil.which("belfry")
    if found is None:
        raise pytest.UsageError("--belfry: there is no program `belfry` beside this Python and none in PATH")
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    chip = config.getoption("belfry")
    if chip is None or INSIDE in os.environ:
        return None
    command = [program(), "exec", "--quiet", "--json", "--chip", chip, *config.getoption("belfry_option")]
    command += ["--", sys.executable, "-m", "pytest", *map(str, config.invocation_params.args)]
    sys.stdout.flush()
    # With --json, the output of the program goes to standard error, which is the report of the tests.
    ran = subprocess.run(
        command,
        cwd=config.invocation_params.dir,
        env={**os.environ, INSIDE: chip},
        stdout=subprocess.PIPE,
        stderr=sys.stdout.fileno(),
    )
    try:
        processes = json.loads(ran.stdout)["processes"]
    except (ValueError, KeyError):
        print(f"belfry: no summary of {chip}; `{' '.join(command)}` ended with {ran.returncode}", file=sys.stderr)
        return ran.returncode or 1
    report(chip, processes, config.getoption("xmlpath", None))
    return ran.returncode


def report(chip, processes, junit):
    """Says what the GPU did and refused; in the JUnit file, each is a property of the suite."""
    dispatches = sum(process.get("dispatches", 0) for process in processes)
    refused = {}
    for process in processes:
        for error, count in process.get("errors", {}).items():
            refused[error] = refused.get(error, 0) + (count if isinstance(count, int) else 1)
        for operation in process.get("unmodelled", []):
            name = f"not modelled: {operation}"
            refused[name] = refused.get(name, 0) + 1
    print(f"belfry: {chip} executed {dispatches} dispatches in {len(processes)} processes")
    for name, count in sorted(refused.items()):
        print(f"belfry: {chip} refused {name} ({count})")
    if not refused:
        print(f"belfry: {chip} refused nothing")
    if junit and os.path.exists(junit):
        tree = xml.parse(junit)
        suite = next(tree.getroot().iter("testsuite"))
        properties = xml.SubElement(suite, "properties") if suite.find("properties") is None else suite.find("properties")
        told = {"belfry.chip": chip, "belfry.dispatches": dispatches}
        told.update({f"belfry.refused.{name}": count for name, count in refused.items()})
        for name, value in told.items():
            xml.SubElement(properties, "property", name=name, value=str(value))
        tree.write(junit, encoding="utf-8", xml_declaration=True)
