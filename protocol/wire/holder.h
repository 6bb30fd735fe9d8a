// The holder of a session or a question is what its client has proved to be. It is a text of one of these forms:
//
//   uid:N       user N of the server's host, whom the kernel names (SO_PEERCRED)
//   name:X      X, the name in a certificate that the server's gateway has checked
//   anonymous   a client that has proved nothing (tcp, ucx)
//   (empty)     nobody has checked yet: clients send this
//
// A holder in a message is only a claim of its sender. The gateway overwrites the claims of its clients, and the server believes
// only its own gateway (server/daemon/caller.h). Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/wire/decoder.h"

namespace tessera {

inline constexpr std::string_view kAnonymousHolder = "anonymous";
inline constexpr size_t kHolderBytesMax = 256;

// "uid:N".
std::string UserHolder(uint32_t uid);
// "name:X" for a name in a certificate. A name that is empty, too long or not printable gives "anonymous".
std::string NameHolder(std::string_view name);

// N of `uid:N`; nullopt for the other forms.
std::optional<uint32_t> UserOf(std::string_view holder);
// True for `name:X`.
bool IsNameHolder(std::string_view holder);
// True for each form except the empty one. The number has to have no leading zeros, and the name has to be printable.
bool IsHolder(std::string_view text);

// Reads a holder. `in` fails for a text that is neither empty nor a holder.
std::string GetHolder(Decoder& in);

}  // namespace tessera
