// The carrying process' end of its line to the keeper (keeper.h). Over it the process takes over what is kept, and gives the
// keeper what is new.
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
  // Takes over what the keeper has. From now on this process is killed when the keeper ends. Call it before the first thread.
  static Result<std::unique_ptr<KeeperLine>> Open(UniqueFd socket);

  // What Open() brought. Take each once.
  UniqueFd TakeListener() { return std::move(listener_); }  // invalid: the keeper has none
  UniqueFd TakeOwner() { return std::move(owner_); }        // invalid: the service has no owner
  std::vector<KeptSession> TakeSessions() { return std::move(sessions_); }
  // Where the process before this one listened, as it said; empty: there was none.
  const std::string& listened() const { return listened_; }

  // Any thread, from here on.

  // Says that connections may come. `where` is an address, for people and for listened().
  void SayReady(const std::string& where);
  // A connection to the server, made by the keeper: the server looks at the process at its other end, and so finds one that
  // stays. Errors are those of ConnectUnix().
  Result<UniqueFd> Dial();
  // The same for a keeper with Keeper::Options::dial. Errors are those of that function.
  Result<UniqueFd> Dial(uint64_t deadline_ns);
  // Opens one of the keeper's files for reading. Errors are those of OpenSmallFile(); kPermissionDenied: it is none of them.
  Result<UniqueFd> OpenFile(const std::string& path);
  // A number that no session of this keeper has had.
  uint64_t NextNumber() { return next_number_.fetch_add(1); }
  // Each of these is done when the keeper reads it. If this process ends, the keeper reads all of them before it does anything
  // else. Errors are those of SendMessage().
  Status KeepSession(uint64_t number, int page, const Channel& channel, const Channel::Files& files);
  Status KeepSegment(uint64_t session, uint32_t id, int fd);
  void ForgetSegment(uint64_t session, uint32_t id);
  void EndSession(uint64_t session);

 private:
  explicit KeeperLine(UniqueFd socket) : socket_(std::move(socket)) {}
  Status TakeOver();
  // Asks the keeper, and returns the descriptor in its answer or the reason why there is none.
  Result<UniqueFd> Ask(const KeeperMessage& question, std::string_view text, uint64_t deadline_ns);
  void Tell(const KeeperMessage& message, std::string_view text = {});

  const UniqueFd socket_;
  UniqueFd listener_, owner_;
  std::vector<KeptSession> sessions_;
  std::string listened_;
  std::atomic<uint64_t> next_number_{0};
};

}  // namespace tessera
