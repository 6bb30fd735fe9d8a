#!/usr/bin/env python3
"""What completes the command lines of the programs: bash is asked, the scripts of zsh and fish are looked at (and asked where there
is such a shell).

usage: completion_test.py BUILD_DIRECTORY
"""

import os
import shutil
import subprocess
import unittest

from product import AGENT, BUILD, DAEMON, GATEWAY, HAS_CONTROL_API, TESSERA, environment

SHELLS = ("bash", "zsh", "fish")


def script(program, shell):
    words = ["completion", shell] if program == TESSERA else ["--completion", shell]
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60, env=environment())
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def complete(program, *words):
    """What bash offers for the last word."""
    name = os.path.basename(program)
    line = " ".join(f"'{word}'" for word in (name, *words))
    code = script(program, "bash") + f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _{name.replace('-', '_')}; echo \"${{COMPREPLY[*]}}\""
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
    assert done.stderr == "", done.stderr
    return done.stdout.split()


class Completion(unittest.TestCase):
    def test_commands_of_tessera(self):
        self.assertEqual(complete(TESSERA, "st"), ["status"])
        self.assertEqual(complete(TESSERA, "--v"), ["--version"])
        self.assertEqual(complete(TESSERA, "help", "st"), ["status"])
        self.assertEqual(complete(TESSERA, "run", "--dr"), ["--driver"])
        self.assertEqual(complete(TESSERA, "run", "--driver", "emu"), ["emulator"])
        self.assertEqual(complete(TESSERA, "status", "-o", ""), ["text", "wide", "json", "yaml"])
        self.assertEqual(complete(TESSERA, "completion", "z"), ["zsh"])
        self.assertEqual(complete(TESSERA, "run", "--", "--dr"), [])
        self.assertEqual(complete(TESSERA, "keys", "s"), ["server", "show"])
        self.assertEqual(complete(TESSERA, "keys", "--da"), ["--days"])
        self.assertEqual(complete(TESSERA, "get", "g"), ["gpus", "grants"])
        self.assertEqual(complete(TESSERA, "get", "gpus", "--pl"), ["--placer"])
        self.assertEqual(complete(TESSERA, "get", "grants", "-o", "w"), ["wide"])
        self.assertEqual(complete(TESSERA, "get", "grants", "--wa"), ["--watch"])
        self.assertEqual(complete(TESSERA, "get", "grants", "-o", "y"), ["yaml"])
        self.assertEqual(complete(TESSERA, "get", "r"), ["requests"])
        self.assertEqual(complete(TESSERA, "describe", "server", "x", "-o", "y"), ["yaml"])
        self.assertEqual(complete(TESSERA, "ev"), ["events"])
        self.assertEqual(complete(TESSERA, "events", "--un"), ["--until"])
        self.assertEqual(complete(TESSERA, "audit", "-o", "j"), ["json"])
        self.assertEqual(complete(TESSERA, "grants", "r"), ["release", "revoke"])
        self.assertEqual(complete(TESSERA, "grants", "--re"), ["--reason"])
        self.assertEqual(complete(TESSERA, "drain", "--de"), ["--deadline"])
        self.assertEqual(complete(TESSERA, "cordon", "--re"), ["--reason"])
        self.assertEqual(complete(TESSERA, "place", "--gpu-s"), ["--gpu-share"])
        self.assertEqual(complete(TESSERA, "describe", "s"), ["server"])
        self.assertEqual(complete(TESSERA, "trace", "s"), ["summary"])
        self.assertEqual(complete(TESSERA, "trace", "summary", "-o", "j"), ["json"])
        self.assertEqual(complete(TESSERA, "vgpu", "cr"), ["create"])
        self.assertEqual(complete(TESSERA, "vgpu", "im"), ["import"])
        self.assertEqual(complete(TESSERA, "vgpu", "--an"), ["--annotation"])
        self.assertEqual(complete(TESSERA, "vgpu", "--re"), ["--request", "--revision", "--request-id"])
        self.assertEqual(complete(TESSERA, "vgpu", "--priority", "p"), ["protected"])
        self.assertEqual(complete(TESSERA, "vgpu", "--con"), ["--control"])
        # Paths are addresses: what is offered for these words is left to the shell, which knows files.
        for words in ((TESSERA, "vgpu", "--control"), (TESSERA, "get", "gpus", "--placer"), (AGENT, "--server"), (GATEWAY, "--listen")):
            self.assertEqual(complete(*words, "/"), [])
            self.assertIn("complete -o default -F", script(words[0], "bash"))

    @unittest.skipUnless(HAS_CONTROL_API, "this build has no control API")
    def test_options_of_the_node(self):
        node = os.path.join(BUILD, "bin/tessera-node")
        self.assertEqual(complete(node, "--ho"), ["--host-id"])
        self.assertEqual(complete(node, "--a"), ["--address", "--authority"])
        self.assertEqual(complete(node, "--log", "w"), ["warning"])
        self.assertEqual(complete(node, "--he"), ["--help"])
        self.assertEqual(complete(node, "--da"), [])

    def test_options_of_the_services(self):
        self.assertEqual(complete(DAEMON, "--wo"), ["--worker-user", "--worker-uids", "--worker-root"])
        self.assertEqual(complete(DAEMON, "--admin"), ["--admin"])
        self.assertEqual(complete(DAEMON, "--so"), ["--socket-group", "--socket-mode"])
        self.assertEqual(complete(DAEMON, "--driver", ""), ["auto", "cuda", "emulator"])
        self.assertEqual(complete(DAEMON, "--log", "debug", "--sandbox", "r"), ["require"])
        self.assertEqual(complete(DAEMON, "--worker-root", "p"), ["private"])
        self.assertEqual(complete(DAEMON, "--control", "n"), ["none"])
        self.assertEqual(complete(DAEMON, "--audit", ""), ["off", "log", "end"])
        for program in (AGENT, GATEWAY):
            self.assertEqual(complete(program, "--log", "w"), ["warning"])
            self.assertEqual(complete(program, "--hel"), ["--help", "--hello-timeout"])
            self.assertEqual(complete(program, "--completion", "f"), ["fish"])
        self.assertEqual(complete(GATEWAY, "--max"), ["--max-sessions"])
        self.assertEqual(complete(GATEWAY, "--allow"), ["--allow", "--allow-file"])

    def test_what_is_not_for_users_is_not_offered(self):
        for program in (DAEMON, AGENT, GATEWAY):
            for shell in SHELLS:
                self.assertNotRegex(script(program, shell), "-fd|parent-pid|remove-directory")

    def test_all_shells_know_the_same(self):
        for program, words in ((TESSERA, ("run", "status", "doctor", "server", "insecure", "emulator", "json")),
                               (DAEMON, ("listen", "driver", "emulator", "sandbox", "require", "max-sessions", "log", "warning")),
                               (AGENT, ("listen", "server", "insecure", "log", "warning")),
                               (GATEWAY, ("listen", "server", "insecure", "max-sessions"))):
            for shell in SHELLS:
                text = script(program, shell)
                for word in (os.path.basename(program), *words):
                    self.assertIn(word, text, shell)

    def test_shells_understand_their_scripts(self):
        for shell, option in (("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")):
            if shutil.which(shell) is None:
                continue
            for program in (TESSERA, DAEMON, AGENT, GATEWAY):
                done = subprocess.run([shell, option], input=script(program, shell), capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_other_shells(self):
        for words in ([TESSERA, "completion", "tcsh"], [DAEMON, "--completion", "tcsh"]):
            done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("tcsh", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
