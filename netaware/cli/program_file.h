// The file of a program that is to be started.
#pragma once

#include <string>

namespace tessera {

// The file that execvp() would start for `name`, looked for in PATH when it has no slash; empty when there is none.
std::string FindProgram(const std::string& name);

// Whether it is machine code (of whatever machine), not a script.
bool IsElf(const std::string& file);

// The program that the first line of a script names ("#!/usr/bin/env python3": python3's file); empty when it names none.
std::string InterpreterOf(const std::string& script);

}  // namespace tessera
