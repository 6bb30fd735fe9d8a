// Where a program keeps what is to outlive it. Any thread that changes no environment beside it.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// A file for the server at this socket, in the user's directory for such: a name made of the socket's path, and `end`. Beside it
// are files whose names go on for `further` characters. Empty: there is no place.
std::string StatePath(const std::string& socket_path, std::string_view end, size_t further = 0);

}  // namespace tessera
