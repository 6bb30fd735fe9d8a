// Whose a session or a question is: what its client has proved to be. A text of one of these forms.
//
//   uid:N       the user N of the server's host, whom the kernel names (SO_PEERCRED)
//   name:X      X is a name in a certificate that the server's gateway has checked
//   anonymous   has proved nothing (tcp, ucx)
//   (empty)     nobody has looked yet: what clients send
//
// A holder in a message is a claim of whoever sent it: the gateway writes over its clients', and the server believes its own
// gateway's alone (server/daemon/caller.h). Pure functions; any thread.
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

std::string UserHolder(uint32_t uid);
// Of a name in a certificate; anonymous for an empty one, and one that is too long or could not be printed as it is.
std::string NameHolder(std::string_view name);

// Of `uid:N`; nullopt for the others.
std::optional<uint32_t> UserOf(std::string_view holder);
bool IsNameHolder(std::string_view holder);
// One of the forms, but for the empty one; a number without zeros in front, a name that can be printed.
bool IsHolder(std::string_view text);

// Fails for a text that is neither empty nor a holder.
std::string GetHolder(Decoder& in);

}  // namespace tessera
