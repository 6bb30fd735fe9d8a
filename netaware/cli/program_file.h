// The file of a program that is to be started.
#pragma once

#include <string>

namespace tessera {

// The file that execvp() would start for `name`; empty if there is none. A name without a slash is searched in PATH, where
// directories are skipped. `*startable` becomes true if the file was found in PATH, so that WhyNotStartable() is not needed.
std::string FindProgram(const std::string& name, bool* startable = nullptr);

// 0, or the errno for a file that cannot be started: EISDIR, EACCES.
int WhyNotStartable(const std::string& file);

// True for machine code of any machine, false for a script.
bool IsElf(const std::string& file);

// The program that the first line of a script names ("#!/usr/bin/env python3": python3's file); empty if it names none.
std::string InterpreterOf(const std::string& script);

}  // namespace tessera
