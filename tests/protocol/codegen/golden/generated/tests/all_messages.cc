// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.

#include "tests/protocol/spec/message_check.h"

namespace tessera {

void AddMessages_toy(std::vector<TestedMessage>* messages);

std::vector<TestedMessage> AllMessages() {
  std::vector<TestedMessage> messages;
  AddMessages_toy(&messages);
  return messages;
}

}  // namespace tessera
