// Addresses of servers and services as people type them. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// The ports when none is said: of a tessera-gateway, of the control API of a tesserad, of a tessera-placer.
inline constexpr uint16_t kGatewayPort = 4180, kControlPort = 4181, kPlacerPort = 4190;

// The address that is meant by `typed`:
//   /run/gpu.sock, ./gpu.sock            unix:/run/gpu.sock, unix:./gpu.sock (whatever has a '/' and no scheme)
//   gpu7, 10.0.0.7, [::1], ::1           tls://gpu7:4180, and so on: encrypted, since a network is between
//   gpu7:5000                            tls://gpu7:5000
//   tls://gpu7, tcp://gpu7               the same with the port
// `port`: of whoever listens there.
// Anything else is what it was: an address with a scheme and a port, or one that has no such form, of which whoever reads it says
// what is wrong.
std::string AddressMeantBy(std::string_view typed, uint16_t port = kGatewayPort);

// " ('gpu7' is taken as tls://gpu7:4180)": for the end of a sentence about an address; empty where both are the same.
std::string TakenAs(std::string_view typed, std::string_view address);

// The forms that AddressMeantBy() knows beside those with a scheme, for sentences and help.
inline constexpr std::string_view kTypedForms = "a path, HOST, HOST:PORT";

}  // namespace tessera
