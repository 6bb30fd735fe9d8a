// The headers of all records of a channel's rings. The sender writes all fields. The receiver copies them, then checks them. The
// first two words are the same in every ring: the size and an id (protocol/channel/ring.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

inline constexpr size_t kRecordAlignment = 8;
// The id of the record that fills the end of a ring; equal to kRingPadId. A ring's reader never sees this record.
inline constexpr uint32_t kPadRecord = 0xffffffff;

// RecordHeader::flags. A record with any other bit set is a protocol violation.
inline constexpr uint32_t kWantsReply = 1u << 0;
// Stream 0 means the calling thread's own default stream (the _ptds/_ptsz forms of a call).
inline constexpr uint32_t kPerThreadStream = 1u << 1;
inline constexpr uint32_t kRecordFlags = kWantsReply | kPerThreadStream;

// A header of ring `commands`, client to server. The message of the call follows (generated/messages).
struct RecordHeader {
  uint32_t size_bytes;  // the whole record, with this header and its padding; a multiple of kRecordAlignment
  uint32_t call;        // id of a call or of a record of Tessera's own (protocol/spec)
  uint32_t flags;
  uint32_t thread;    // the client's number for the calling thread, from 1, never reused in a session
  uint64_t sequence;  // 1, 2, 3 ... through all records of the session; never 0
  uint64_t context;   // handle value of the calling thread's current context; 0: none
};
static_assert(sizeof(RecordHeader) == 32);

// The kinds of records in ring `replies`. The numbers are part of the protocol.
enum class ReplyKind : uint32_t {
  kNone = 0,
  kReply = 1,                 // answers the record with this sequence: result; the reply message follows
  kDeferredError = 2,         // `sequence` wanted no reply and failed: result; thread: its caller; extra: its current context
  kHostFunction = 3,          // asks to run a host function; extra: the request's number, for the answer in `answers`
  kDeviceOutput = 4,          // text that the driver wrote to stdout (printf of kernels); extra: its size without padding
  kCompletion = 5,            // a mark was passed; extra: its number; result: that of the GPU work
  kDeviceErrors = 6,          // text that the driver wrote to stderr (failed assertions of kernels); extra: as kDeviceOutput
  kHostFunctionReleased = 7,  // no request for a host function will follow; extra: the client's number of the function
  kHostChanges = 8,           // what GPU work wrote to mirrors of host memory; mirrored channels only (memory/change_tracker.h)
  kMirrorsIdle = 9,  // all work with mirrors is done, its changes were sent; extra: how many tesseraMirrorsUsed it covers
  kDelivery = 10,    // a copy to the client's memory (tesseraDeliver) ended; its bytes follow if it worked; extra: its number
  kPad = kPadRecord,
};
// The same numbers, used for notices only: all kinds except kReply and kPad. A notice answers no record.
using NoticeKind = ReplyKind;

// The kinds of records in ring `answers`. The numbers are part of the protocol.
enum class AnswerKind : uint32_t {
  kNone = 0,
  kHostFunctionDone = 1,  // extra: the number of the request
  kHostChanges = 2,       // what this process wrote to host memory that has a mirror (memory/change_tracker.h)
  // A call that a host function makes (spec: aside). It must not queue behind launches in `commands`, which may be waiting for
  // this very function. A record as in `commands` follows, with a sequence of kAsideSequence and with kWantsReply. extra: the
  // sequence of the last record in `commands` that it must not overtake (0: none). The worker executes the call at once. If that
  // record was not executed yet, the worker answers with kAsideBehind and forgets the call.
  kAside = 3,
  kPad = kPadRecord,
};
// The sequence of an aside record is this bit and a number that is unique among the session's aside records.
inline constexpr uint64_t kAsideSequence = uint64_t{1} << 63;
// A result that is no CUresult: a record on which the aside record depends is still in `commands`.
inline constexpr int32_t kAsideBehind = -1;

// A header of rings `replies` (server to client) and `answers` (client to server).
struct ReplyHeader {
  uint32_t size_bytes;  // as in RecordHeader
  uint32_t kind;        // ReplyKind or AnswerKind
  uint64_t sequence;    // of the record this is about; 0: none
  int32_t result;       // CUresult
  uint32_t thread;      // of the record this is about; 0: none
  uint64_t extra;       // see the kinds; 0 where unused
};
static_assert(sizeof(ReplyHeader) == 32);

// `size` rounded up to a multiple of kRecordAlignment.
constexpr size_t PaddedRecordBytes(size_t size) { return (size + kRecordAlignment - 1) & ~(kRecordAlignment - 1); }

}  // namespace tessera
