#include "client-stub/process/ticket_file.h"

#include <cstring>

#include "protocol/base/small_file.h"
#include "protocol/wire/handshake.h"

namespace tessera {

Result<std::vector<std::byte>> ReadTicket(const std::string& path) {
  if (path.empty()) return std::vector<std::byte>();
  const Result<std::string> text = ReadSmallFile(path, kHelloTicketBytesMax);
  if (!text.ok()) {
    return Status(
        StatusCode::kResourceExhausted,
        "the ticket for the GPU cannot be used: " + text.status().message() +
            " (TESSERA_TICKET); it goes when the job of 'tessera run' has ended: start the program in a job of its own");
  }
  std::vector<std::byte> bytes(text.value().size());
  std::memcpy(bytes.data(), text.value().data(), bytes.size());
  return bytes;
}

}  // namespace tessera
