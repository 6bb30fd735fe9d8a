// Generated from protocol/spec/toy.toml by protocol/codegen. Do not edit.

#include "generated/messages/toy.h"
#include "tests/protocol/spec/message_check.h"

namespace tessera {

static void Fill(ValueSource& source, cuToyCreateRequest& message) {
  message.toy = source.Pod<HandleId>();
  message.flags = source.Pod<unsigned int>();
}

static void Fill(ValueSource& source, cuToyCreateReply& message) {
}

static void Fill(ValueSource& source, cuToyDestroyRequest& message) {
  message.toy = source.Pod<HandleId>();
}

static void Fill(ValueSource& source, cuToyDestroyReply& message) {
}

static void Fill(ValueSource& source, cuToyRenameRequest& message) {
  const size_t size_length = source.Length();
  message.toy = source.Pod<HandleId>();
  message.name = source.Text();
  message.data = source.Bytes(size_length);
  message.size = static_cast<size_t>(size_length);
  message.length = source.Pod<int>();
}

static void Fill(ValueSource& source, cuToyRenameReply& message) {
  message.old = source.Text();
}

static void Fill(ValueSource& source, cuToyPlay_v2Request& message) {
  const size_t number_length = source.Length();
  message.has_toys = source.Pod<bool>();
  source.Elements<HandleId>(message.has_toys ? number_length : 0, &message.toys);
  message.number = static_cast<unsigned int>(number_length);
  source.Elements<CUpoint>(2, &message.points);
  message.place = source.Pod<CUpoint>();
  message.has_friends = source.Pod<bool>();
  message.friend_count = source.Pod<size_t>();
  message.userData = source.Pod<uint64_t>();
  message.stream = source.Pod<HandleId>();
}

static void Fill(ValueSource& source, cuToyPlay_v2Reply& message) {
  message.place = source.Pod<CUpoint>();
  source.Elements<HandleId>(source.Length(), &message.friends);
  message.friend_count = source.Pod<size_t>();
}

static void Fill(ValueSource& source, cuToyGetColourRequest& message) {
  message.toy = source.Pod<HandleId>();
}

static void Fill(ValueSource& source, cuToyGetColourReply& message) {
  message.colour = source.Pod<int>();
}

static void Fill(ValueSource& source, cuToyPaintRequest& message) {
  message.toy = source.Pod<HandleId>();
  source.Elements<uint32_t>(source.Length(), &message.colours);
  message.names = {source.Text(), source.Text()};
}

static void Fill(ValueSource& source, cuToyPaintReply& message) {
  message.place = source.Pod<CUpoint>();
  message.text = source.Text();
}

static void Fill(ValueSource& source, cuToyThrowRequest& message) {
  message.toy = source.Pod<HandleId>();
  message.stream = source.Pod<HandleId>();
}

static void Fill(ValueSource& source, cuToyThrowReply& message) {
}

static void Fill(ValueSource& source, cuToyHurlRequest& message) {
  message.toy = source.Pod<HandleId>();
  message.stream = source.Pod<HandleId>();
}

static void Fill(ValueSource& source, cuToyHurlReply& message) {
}

static void Fill(ValueSource& source, tesseraToyTickRequest& message) {
  message.time_ns = source.Pod<uint64_t>();
}

static void Fill(ValueSource& source, tesseraToyTickReply& message) {
}

void AddMessages_toy(std::vector<TestedMessage>* messages) {
  Add<cuToyCreateRequest>("cuToyCreateRequest", messages);
  Add<cuToyCreateReply>("cuToyCreateReply", messages);
  Add<cuToyDestroyRequest>("cuToyDestroyRequest", messages);
  Add<cuToyDestroyReply>("cuToyDestroyReply", messages);
  Add<cuToyRenameRequest>("cuToyRenameRequest", messages);
  Add<cuToyRenameReply>("cuToyRenameReply", messages);
  Add<cuToyPlay_v2Request>("cuToyPlay_v2Request", messages);
  Add<cuToyPlay_v2Reply>("cuToyPlay_v2Reply", messages);
  Add<cuToyGetColourRequest>("cuToyGetColourRequest", messages);
  Add<cuToyGetColourReply>("cuToyGetColourReply", messages);
  Add<cuToyPaintRequest>("cuToyPaintRequest", messages);
  Add<cuToyPaintReply>("cuToyPaintReply", messages);
  Add<cuToyThrowRequest>("cuToyThrowRequest", messages);
  Add<cuToyThrowReply>("cuToyThrowReply", messages);
  Add<cuToyHurlRequest>("cuToyHurlRequest", messages);
  Add<cuToyHurlReply>("cuToyHurlReply", messages);
  Add<tesseraToyTickRequest>("tesseraToyTickRequest", messages);
  Add<tesseraToyTickReply>("tesseraToyTickReply", messages);
}

}  // namespace tessera
