// How the process of a service begins and ends.
#pragma once

#include <string>

#include "programs/service_options.h"
#include "protocol/base/status.h"

namespace tessera {

// Prints the line that says that the service can be used: whoever has read it may send signals.
void Announce(const std::string& line);

// Leaves the foreground when `options` name an owner, which then has no child that it did not start itself.
void LeaveForeground(const ServiceOptions& options);

// Says on stderr why the program `name` ends; `code`.
int Fail(const char* name, const Status& why, int code);

// Removes the directory of the socket at `socket_path`, when `options` say that it was made for this program.
void RemoveOwnDirectory(const ServiceOptions& options, const std::string& socket_path);

// Raises this process's limit of open files as far as it may: each session takes some.
void RaiseDescriptorLimit();

}  // namespace tessera
