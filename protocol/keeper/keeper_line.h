// The end of the process that carries sessions, of its line to the keeper (keeper.h): what is kept is taken over from it, and
// what is new is given to it.
//
//   Result<std::unique_ptr<KeeperLine>> line = KeeperLine::Open(options.carry_fd);
//   for (KeptSession& session : (*line)->TakeSessions()) ...
//   line->SayReady(listener.address().Url());
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/keeper/keeper_words.h"

namespace tessera {

class KeeperLine {
 public:
  // Takes over what the keeper has. From now on this process is killed when the keeper ends. Before the first thread.
  static Result<std::unique_ptr<KeeperLine>> Open(UniqueFd socket);

  // What Open() brought, to be taken once.
  UniqueFd TakeListener() { return std::move(listener_); }  // invalid: the keeper has none
  UniqueFd TakeOwner() { return std::move(owner_); }        // invalid: the service is for nobody in particular
  std::vector<KeptSession> TakeSessions() { return std::move(sessions_); }
  // Where the process before this one said that it listens; empty: there was none.
  const std::string& listened() const { return listened_; }

  // Any thread, from here on.

  // Connections may come. `where` is an address, for people and for listened().
  void SayReady(const std::string& where);
  // A connection to the server, made by the keeper: who looks who is at its other end finds a process that stays. Errors as of
  // ConnectUnix().
  Result<UniqueFd> Dial();
  // The same for a keeper with Keeper::Options::dial; what that says of its errors.
  Result<UniqueFd> Dial(uint64_t deadline_ns);
  // One of the keeper's files, to be read. Errors as of OpenSmallFile(); kPermissionDenied: it is none of them.
  Result<UniqueFd> OpenFile(const std::string& path);
  // A number that no session of this keeper has had.
  uint64_t NextNumber() { return next_number_.fetch_add(1); }
  // Each is done when the keeper reads it, which it does before anything else if this process ends.
  Status KeepSession(uint64_t number, int page, const Channel& channel, const Channel::Files& files);
  Status KeepSegment(uint64_t session, uint32_t id, int fd);
  void ForgetSegment(uint64_t session, uint32_t id);
  void EndSession(uint64_t session);

 private:
  explicit KeeperLine(UniqueFd socket) : socket_(std::move(socket)) {}
  Status TakeOver();
  // The keeper's answer to a word with a descriptor or a reason in it.
  Result<UniqueFd> Ask(const KeeperMessage& question, std::string_view text, uint64_t deadline_ns);
  void Tell(const KeeperMessage& message, std::string_view text = {});

  const UniqueFd socket_;
  UniqueFd listener_, owner_;
  std::vector<KeptSession> sessions_;
  std::string listened_;
  std::atomic<uint64_t> next_number_{0};
};

}  // namespace tessera
