// Addresses of servers and services as people type them. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// Default ports: of a tessera-gateway, of tesserad's control API, of a tessera-placer.
inline constexpr uint16_t kGatewayPort = 4180, kControlPort = 4181, kPlacerPort = 4190;

// The address that `typed` means:
//   /run/gpu.sock, ./gpu.sock            unix:/run/gpu.sock, unix:./gpu.sock (whatever has a '/' and no scheme)
//   gpu7, 10.0.0.7, [::1], ::1           tls://gpu7:4180, and so on: encrypted, since a network is between
//   gpu7:5000                            tls://gpu7:5000
//   tls://gpu7, tcp://gpu7               the same with the port
// `port`: the default port of the service. Anything else is returned unchanged. If it is malformed its reader says what is wrong.
std::string AddressMeantBy(std::string_view typed, uint16_t port = kGatewayPort);

// " ('gpu7' is taken as tls://gpu7:4180)", for the end of a sentence about an address; empty if both are the same.
std::string TakenAs(std::string_view typed, std::string_view address);

// The forms without a scheme that AddressMeantBy() knows, for messages and help.
inline constexpr std::string_view kTypedForms = "a path, HOST, HOST:PORT";

}  // namespace tessera
