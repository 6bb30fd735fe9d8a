// Changes of the control API that have been answered, for whoever asks again with the same request id. The broker looks them up.
// The daemon keeps them for the broker's successor, and for the next server, with the vGPUs that the API made.
//
//   requests.Add({.holder = "uid:0", .id = "7", .digest = ..., .answer = ...});
//   if (const AnsweredRequest* const before = requests.Find("uid:0", "7")) ...
//
// The newest kOfHolderMax of a holder are kept, and kBytesMax of all together: beyond that the oldest of whoever has most go.
// What was added in the same order is the same in both processes. Plain values; used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "protocol/base/status.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"

namespace tessera {

struct AnsweredRequest {
  static constexpr size_t kIdBytesMax = 128;
  static constexpr size_t kAnswerBytesMax = 120 * 1024;
  std::string holder{};  // who asked (protocol/wire/holder.h)
  std::string id{};      // 1 to kIdBytesMax bytes of his own
  uint64_t digest = 0;   // of what he asked for
  std::string answer{};  // as the broker writes it (server/broker/kept_answer.h)

  size_t bytes() const;  // as Encode() writes them
  void Encode(Encoder& out) const;
  // `in` fails for what is none.
  static AnsweredRequest Decode(Decoder& in);
  friend bool operator==(const AnsweredRequest&, const AnsweredRequest&) = default;
};

class AnsweredRequests {
 public:
  static constexpr size_t kOfHolderMax = 1'024;
  static constexpr size_t kBytesMax = 512 * 1024;

  // The same id of the same holder once more takes the place of the one before.
  void Add(AnsweredRequest request);
  // Null: it is not there, or not any more. Valid until the next Add().
  const AnsweredRequest* Find(std::string_view holder, std::string_view id) const;
  size_t bytes() const { return bytes_; }

  void Encode(Encoder& out) const;
  // kProtocolViolation: these bytes are no list of them.
  static Result<AnsweredRequests> Decode(std::span<const std::byte> bytes);
  friend bool operator==(const AnsweredRequests&, const AnsweredRequests&) = default;

 private:
  struct OfHolder {
    std::map<std::string, AnsweredRequest, std::less<>> by_id;
    std::deque<std::string> ids;  // the oldest first
    size_t bytes = 0;
    friend bool operator==(const OfHolder&, const OfHolder&) = default;
  };
  void DropOldest(OfHolder& holder);
  void KeepBounds(OfHolder& last);

  std::map<std::string, OfHolder, std::less<>> holders_;
  size_t bytes_ = 0;  // of all
};

}  // namespace tessera
