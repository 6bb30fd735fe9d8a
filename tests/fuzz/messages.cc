// Every generated message, decoded as the worker decodes requests and the client replies: the target is made from the
// spec. Input: u16 which message, then its bytes.
#include <string>

#include "protocol/wire/decoder.h"
#include "tests/fuzz/target.h"
#include "tests/protocol/spec/message_check.h"

namespace tessera::fuzz {
namespace {

const std::vector<TestedMessage>& Messages() {
  static const std::vector<TestedMessage> messages = AllMessages();
  return messages;
}

}  // namespace

void Run(std::span<const std::byte> input) {
  Reader reader(input);
  const TestedMessage& message = Messages()[reader.Take<uint16_t>() % Messages().size()];
  const auto rest = reader.Rest();
  const Input copy(rest.begin(), rest.end());  // aligned, as a record's message is
  Decoder in(copy);
  message.decode(in);
}

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (size_t i = 0; i < Messages().size(); ++i) {
    ValueSource source(static_cast<uint32_t>(i));
    Encoder out;
    Messages()[i].encode(source, out);
    seeds.push_back(Writer().Put(static_cast<uint16_t>(i)).Bytes(out.bytes()).input());
  }
  return seeds;
}

}  // namespace tessera::fuzz
