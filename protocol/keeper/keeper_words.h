// What a keeper (keeper.h) and the process that carries its sessions (keeper_line.h) say to each other, one datagram each, over a
// socket pair. Both run our code, as one user. So what arrives is checked against mistakes and other releases, not against
// malice. A helper (helper.h) knows kDial, kOpen and kAct of these words. It takes them from a process that may have been taken
// over.
//
//   keeper                                     process that carries
//   kStart                                ->
//   kSession, kSegment ..., for each      ->
//   kAll                                  ->
//                                         <-   kReady
//                                         <-   kSession, kSegment, kForgetSegment, kEnd: any time, no answer
//                                         <-   kDial, with a socket on which the answer is awaited
//   kDialled, over that socket            ->
//                                         <-   kOpen, likewise
//   kOpened, over that socket             ->
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/channel.h"

namespace tessera {

// How long a name lookup may take: resolvers ask several name servers, several times.
inline constexpr uint64_t kLookupTimeoutNs = 60'000'000'000;

enum class KeeperWord : uint32_t {
  kStart = 1,    // value: process id of the keeper; session: the first number that is free; text: StartText
  kSession = 2,  // with the descriptors of KeptSession: page, socket, rings, staging, and peer_process if there is one
  kSegment = 3,  // a segment of `session` with id `value` and its memory file; replaces one that had this id
  kAll = 4,
  kForgetSegment = 5,  // of `session`; value: its id
  kEnd = 6,            // `session` is over
  kReady = 7,          // text: where it listens
  kDial = 8,           // value: deadline (MonotonicNs), name lookup apart; with the keeper's end of a socket pair. To a helper:
                       // text: the name of the place
  kDialled = 9,        // with a connection; or value: the StatusCode, text: the sentence
  kOpen = 10,          // text: the path of one of Keeper::Options::files; with the keeper's end of a socket pair
  kOpened = 11,        // with a descriptor; or as kDialled
  kAct = 12,           // to a helper (helper.h); text: the name of the act; with its end of a socket pair, and a memory file with
                       // the text for the act
  kActed = 13,         // value: the StatusCode, text: the sentence
};

struct KeeperMessage {
  static constexpr uint32_t kVersion = 2;  // changes with these words, and with CarriagePage
  static constexpr size_t kTextBytesMax = 2048;

  uint32_t version = kVersion;
  KeeperWord word{};
  uint64_t session = 0;
  uint64_t value = 0;
};

// The text of kStart. Its descriptors, each if there is one: the listening socket, and one that becomes readable when the
// service's owner has ended.
struct StartText {
  bool has_listener = false;
  bool has_owner = false;
  std::string listened;  // where the process before this one listened; empty: there was none

  std::string Text() const;
  static StartText From(std::string_view text);
};

struct ReceivedWord {
  KeeperMessage message;
  std::string text;
  std::vector<UniqueFd> fds;
};

// Sends a word; waits 10 s at most. Errors are those of SendMessage().
Status SendWord(int socket, const KeeperMessage& message, std::span<const int> fds = {}, std::string_view text = {});
// Receives a word. Errors are those of ReceiveMessage(); kVersionMismatch for a peer of another release.
Result<ReceivedWord> ReceiveWord(int socket, uint64_t deadline_ns);

// What a keeper has of a session.
struct KeptSession {
  uint64_t number = 0;
  UniqueFd page;    // carriage.h
  UniqueFd socket;  // of its channel
  Channel::Files files;
  UniqueFd peer_process;                  // Channel::peer_process(); may be invalid
  std::map<uint32_t, UniqueFd> segments;  // by id

  // Makes one from a word kSession. kInternal when descriptors are missing.
  static Result<KeptSession> From(ReceivedWord word);
};
Status SendSession(int socket, uint64_t number, int page, int channel_socket, const Channel::Files& files, int peer_process);

}  // namespace tessera
