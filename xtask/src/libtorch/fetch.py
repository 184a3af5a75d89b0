"""Fetch one wheel into a part file, going on where an earlier run stopped.

    fetch.py FILE PROJECT PART [URL]

FILE is the wheel's exact file name, PROJECT its project, PART the file that grows. Without URL the
address comes from pip's own package finder, and the bytes travel through pip's own session, so that
whatever index, mirror, proxy, certificate or password the user taught pip holds here too.

Prints "at DONE TOTAL" (bytes; TOTAL is 0 when the server does not say). Exit codes, with one line of
explanation on stderr: 0 complete, 3 the connection broke (try again), 4 refused or not there, 5 this
pip is built differently from what this script knows (let pip do the download instead).
"""

import fcntl
import logging
import os
import sys

BROKEN, REFUSED, OTHER_PIP = 3, 4, 5
CHUNK = 1 << 20


def stop(code, reason):
    print(" ".join(str(reason).split()), file=sys.stderr)
    sys.exit(code)


def tags(file):
    """The pip options under which FILE counts as installable, whatever Python runs this script."""
    python, abi, platforms = file[: -len(".whl")].split("-")[-3:]
    options = ["--implementation", "cp" if python.startswith("cp") else "py", "--abi", abi]
    options += ["--python-version", "311", "--only-binary", ":all:", "--no-deps", "--no-cache-dir"]
    for platform in platforms.split("."):
        options += ["--platform", platform]
    return options


class Unreachable(logging.Handler):
    """Remembers which index pages could not be read; pip's finder only mentions that in its log."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.reasons = []

    def emit(self, record):
        text = record.getMessage()
        if text.startswith("Could not fetch URL"):
            self.reasons.append(text)


def locate(command, options, session, file, project):
    from pip._internal.cli.cmdoptions import make_target_python

    unreachable = Unreachable()
    collector = logging.getLogger("pip._internal.index.collector")
    collector.setLevel(logging.DEBUG)
    collector.addHandler(unreachable)
    finder = command._build_package_finder(
        options=options, session=session, target_python=make_target_python(options)
    )
    for candidate in finder.find_all_candidates(project):
        if candidate.link.filename == file:
            return candidate.link.url_without_fragment
    if unreachable.reasons:
        stop(REFUSED, unreachable.reasons[0])
    stop(REFUSED, "no package index that pip knows has it")


def transfer(session, url, part):
    have = part.seek(0, os.SEEK_END)
    # A compressed transfer would make byte offsets meaningless.
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = "bytes=%d-" % have
    answer = session.get(url, headers=headers, stream=True)
    if answer.status_code == 416:
        # Nothing beyond what is here: complete, or longer than the original and so worthless.
        if answer.headers.get("Content-Range", "").rpartition("/")[2] == str(have):
            return
        answer.close()
        part.truncate(0)
        part.seek(0)
        have = 0
        del headers["Range"]
        answer = session.get(url, headers=headers, stream=True)
    if answer.status_code >= 500:
        stop(BROKEN, "the server answered %d" % answer.status_code)
    if answer.status_code >= 400:
        stop(REFUSED, "the server answered %d for the wheel" % answer.status_code)
    starts = answer.headers.get("Content-Range", "").partition(" ")[2].partition("-")[0]
    if have and (answer.status_code != 206 or starts != str(have)):
        # The server sends everything again from the start.
        part.truncate(0)
        part.seek(0)
        have = 0
    length = answer.headers.get("Content-Length", "")
    total = have + int(length) if length.isdigit() else 0
    print("at %d %d" % (have, total), flush=True)
    for chunk in answer.raw.stream(CHUNK, decode_content=False):
        part.write(chunk)
        have += len(chunk)
        print("at %d %d" % (have, total), flush=True)
    if have < total:
        stop(BROKEN, "the connection closed after %d of %d bytes" % (have, total))


def main():
    file, project, path = sys.argv[1:4]
    url = sys.argv[4] if len(sys.argv) > 4 else None
    try:
        from pip._internal.commands import create_command
        from pip._vendor import requests, urllib3

        command = create_command("download")
        options, _ = command.parse_args(tags(file) + [project])
        with command.main_context():
            session = command.get_default_session(options)
            try:
                url = url or locate(command, options, session, file, project)
                with open(path, "ab") as part:
                    fcntl.flock(part, fcntl.LOCK_EX)
                    transfer(session, url, part)
            except requests.exceptions.SSLError as error:
                stop(REFUSED, "certificate trouble: %s" % error)
            except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError) as error:
                stop(BROKEN, error)
            except OSError as error:
                stop(REFUSED, error)
    except KeyboardInterrupt:
        stop(BROKEN, "interrupted")
    except SystemExit:
        raise
    except Exception as error:
        name = type(error).__name__
        stop(BROKEN if name in ("NetworkConnectionError", "ConnectionError") else OTHER_PIP, "%s: %s" % (name, error))


main()
