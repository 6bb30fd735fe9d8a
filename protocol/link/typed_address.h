// Addresses of servers as people type them. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// The port of a tessera-gateway when none is said.
inline constexpr uint16_t kGatewayPort = 4180;

// The address that is meant by `typed`:
//   /run/gpu.sock, ./gpu.sock            unix:/run/gpu.sock, unix:./gpu.sock (whatever has a '/' and no scheme)
//   gpu7, 10.0.0.7, [::1], ::1           tls://gpu7:4180, and so on: encrypted, since a network is between
//   gpu7:4181                            tls://gpu7:4181
//   tls://gpu7, tcp://gpu7               the same with the port
// Anything else is what it was: an address with a scheme and a port, or one that has no such form, of which whoever reads it says
// what is wrong.
std::string AddressMeantBy(std::string_view typed);

// " ('gpu7' is taken as tls://gpu7:4180)": for the end of a sentence about an address; empty where both are the same.
std::string TakenAs(std::string_view typed, std::string_view address);

// The forms that AddressMeantBy() knows beside those with a scheme, for sentences and help.
inline constexpr std::string_view kTypedForms = "a path, HOST, HOST:PORT";

}  // namespace tessera
