// The file of a program that is to be started.
#pragma once

#include <string>

namespace tessera {

// The file that execvp() would start for `name`, looked for in PATH when it has no slash, where a directory is passed by; empty
// when there is none.
// `*startable`: becomes true where it was found in PATH and WhyNotStartable() need not be asked.
std::string FindProgram(const std::string& name, bool* startable = nullptr);

// 0, or the errno with which such a file cannot be started: EISDIR, EACCES.
int WhyNotStartable(const std::string& file);

// Whether it is machine code (of whatever machine), not a script.
bool IsElf(const std::string& file);

// The program that the first line of a script names ("#!/usr/bin/env python3": python3's file); empty when it names none.
std::string InterpreterOf(const std::string& script);

}  // namespace tessera
