// What stands in front of every record of a channel's rings. All fields are written by the sender and copied, then
// checked, by the receiver. The first two words are the same in every ring: the size, and an id (protocol/channel/ring.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

inline constexpr size_t kRecordAlignment = 8;
// The id of the record that fills the end of a ring; equal to kRingPadId. Readers of a ring never see one.
inline constexpr uint32_t kPadRecord = 0xffffffff;

// RecordHeader::flags. Bits that are not named must be zero: a record with another bit is a protocol violation.
inline constexpr uint32_t kWantsReply = 1u << 0;
// Stream 0 means the calling thread's own default stream (the _ptds/_ptsz forms of a call).
inline constexpr uint32_t kPerThreadStream = 1u << 1;
inline constexpr uint32_t kRecordFlags = kWantsReply | kPerThreadStream;

// Ring `commands`, client to server. The message of the call follows (generated/messages).
struct RecordHeader {
  uint32_t size_bytes;  // the whole record with this header and its padding; a multiple of kRecordAlignment
  uint32_t call;        // id of a call or of a record of Tessera's own (protocol/spec)
  uint32_t flags;
  uint32_t thread;    // the client's number for the calling thread, from 1, never reused in a session
  uint64_t sequence;  // 1, 2, 3 ... over all records of the session; 0 never occurs
  uint64_t context;   // handle value of the calling thread's current context; 0: none
};
static_assert(sizeof(RecordHeader) == 32);

// What a record of the ring `replies` is. The numbers are part of the protocol.
enum class ReplyKind : uint32_t {
  kNone = 0,
  kReply = 1,                 // ends the record with this sequence: result, then the reply message
  kDeferredError = 2,         // `sequence` wanted no reply and failed: result; thread called; extra: its current context
  kHostFunction = 3,          // run a host function: extra is the request's number, to be answered in `answers`
  kDeviceOutput = 4,          // text that the driver wrote to stdout (printf of kernels); extra: its size without padding
  kCompletion = 5,            // a mark was passed: extra is its number; result is the GPU work's
  kDeviceErrors = 6,          // text that the driver wrote to stderr (failed assertions of kernels); extra: as kDeviceOutput
  kHostFunctionReleased = 7,  // nobody will ask for a host function again: extra is the client's number of it
  kHostChanges = 8,           // what GPU work wrote to mirrors of host memory, over a mirrored channel (memory/change_tracker.h)
  kMirrorsIdle = 9,  // all work is done that used mirrors, and its changes were told; extra: of how many tesseraMirrorsUsed
  kDelivery = 10,    // a copy to the client's memory (tesseraDeliver) is done: its bytes, none if it failed; extra: its number
  kPad = kPadRecord,
};
// The same numbers where only notices are meant: all that is neither kReply nor kPad. A notice answers no record.
using NoticeKind = ReplyKind;

// What a record of the ring `answers` is.
enum class AnswerKind : uint32_t {
  kNone = 0,
  kHostFunctionDone = 1,  // extra is the number of the request
  kHostChanges = 2,       // what this process wrote to host memory that has a mirror (memory/change_tracker.h)
  // A call that a host function makes (spec: aside) and that must not stand behind launches in `commands`, which may be waiting
  // for this very function. A record as in `commands` follows, with a sequence of kAsideSequence and kWantsReply. extra is the
  // sequence of the last record in `commands` that it must not overtake (0: none). It is executed at once, or, if that record
  // was not executed yet, answered with kAsideBehind and forgotten.
  kAside = 3,
  kPad = kPadRecord,
};
// Sequences of records that go aside: this bit, and a number that no other of the session has.
inline constexpr uint64_t kAsideSequence = uint64_t{1} << 63;
// No CUresult: what a record that goes aside depends on stands in `commands` still.
inline constexpr int32_t kAsideBehind = -1;

// Rings `replies` (server to client) and `answers` (client to server).
struct ReplyHeader {
  uint32_t size_bytes;  // as above
  uint32_t kind;        // ReplyKind, or AnswerKind
  uint64_t sequence;    // of the record this is about; 0: none
  int32_t result;       // CUresult
  uint32_t thread;      // of the record this is about; 0: none
  uint64_t extra;       // see the kinds; 0 where unused
};
static_assert(sizeof(ReplyHeader) == 32);

constexpr size_t PaddedRecordBytes(size_t size) { return (size + kRecordAlignment - 1) & ~(kRecordAlignment - 1); }

}  // namespace tessera
