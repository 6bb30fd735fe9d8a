#include "server/usage/usage_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"
#include "server/usage/usage_line.h"
#include "server/usage/usage_store.h"

namespace tessera {
namespace {

constexpr int64_t kDayS = 86'400;
constexpr int kMessagesAtOnce = 64;
constexpr uint64_t kSendNs = 2'000'000'000;

// Nobody else writes there.
Status MakeDirectory(const std::string& path, uid_t user) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Status::FromErrno("cannot make the directory " + path, errno);
  const UniqueFd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info {};
  if (!directory.valid() || fstat(directory.get(), &info) != 0)
    return Status::FromErrno("cannot open the directory " + path, errno);
  const bool known = info.st_uid == geteuid() || (geteuid() == 0 && info.st_uid == user);
  if (!known || (info.st_mode & 077) != 0) {
    return Status(StatusCode::kPermissionDenied,
                  "others than this user may read " + path + ": take that right away (chmod 700), or choose another --state");
  }
  if (geteuid() != 0 || user == 0) {
    if (access(path.c_str(), W_OK | X_OK) != 0) return Status::FromErrno("cannot write to " + path, errno);
    return Status::Ok();
  }
  for (const char* const name : {"usage.sqlite", "usage.sqlite-journal"}) {
    if (fchownat(directory.get(), name, user, user, AT_SYMLINK_NOFOLLOW) != 0 && errno != ENOENT)
      return Status::FromErrno("cannot give " + path + "/" + name + " to its keeper", errno);
  }
  if (fchown(directory.get(), user, user) != 0) return Status::FromErrno("cannot give " + path + " to its keeper", errno);
  return Status::Ok();
}

class Keeper {
 public:
  // `quiet`: whoever started it says what is wrong at first.
  Keeper(UniqueFd line, const UsageKeeperOptions& options, bool quiet)
      : line_(std::move(line)), options_(options), fails_(quiet) {}

  Status Open() {
    Result<UsageStore> store = UsageStore::Open(options_.directory);
    again_ns_ = MonotonicNs() + UsageKeeperOptions::kAgainNs;
    if (!store.ok()) return Complain(store.status());
    store_.emplace(std::move(*store));
    fails_ = false;
    return Status::Ok();
  }
  int fd() const { return line_.get(); }

  // False: the other end has gone.
  bool Hear() {
    for (int i = 0; i < kMessagesAtOnce; ++i) {
      Result<SocketMessage> message = ReceiveMessage(line_.get(), kUsageMessageBytesMax, 0);
      if (!message.ok()) return message.status().code() != StatusCode::kUnavailable;
      if (UsageWordOf(message->bytes) == UsageWord::kQuery) {
        if (Result<UsageQuery> query = UsageQuery::Decode(message->bytes); query.ok()) Answer(*query);
      } else if (Result<UsageBatch> batch = UsageBatch::Decode(message->bytes); batch.ok()) {
        Take(std::move(*batch));
      } else {
        LogWarning("{}", batch.status().message());
      }
    }
    return true;
  }

  void Tend() {
    const uint64_t now_ns = MonotonicNs();
    if (!store_ && now_ns >= again_ns_) (void)Open();
    if (waiting_count_ > 0 && now_ns >= write_ns_) Write();
    if (store_ && now_ns >= drop_ns_) {
      drop_ns_ = now_ns + UsageKeeperOptions::kDropNs;
      if (const Status status = store_->DropBefore(time(nullptr) - options_.days * kDayS); !status.ok()) (void)Complain(status);
    }
  }
  void Write() {
    const uint64_t now_ns = MonotonicNs();
    write_ns_ = now_ns + UsageKeeperOptions::kWriteNs;
    if (!store_ || waiting_count_ == 0) return;
    const std::vector<UsageBatch> batches(waiting_.begin(), waiting_.end());
    const Status status = store_->Write(batches);
    if (!status.ok()) return (void)Complain(status);
    written_ns_ = now_ns;
    if (std::exchange(fails_, false)) LogWarning("usage records are written again");
    waiting_.clear();
    waiting_count_ = 0;
  }
  int TimeoutMs() const {
    const uint64_t now_ns = MonotonicNs();
    uint64_t next_ns = store_ ? drop_ns_ : again_ns_;
    if (waiting_count_ > 0) next_ns = std::min(next_ns, write_ns_);
    return next_ns <= now_ns ? 0 : static_cast<int>((next_ns - now_ns) / 1'000'000 + 1);
  }

 private:
  // Once, until it works again.
  Status Complain(const Status& status) {
    if (!std::exchange(fails_, true)) {
      LogWarning("usage records are not written: {}; vGPUs go on, and it is tried again", status.message());
    }
    return status;
  }

  void Take(UsageBatch batch) {
    if (waiting_count_ == 0) write_ns_ = MonotonicNs() + UsageKeeperOptions::kWriteNs;
    waiting_count_ += batch.records.size();
    waiting_.push_back(std::move(batch));
    while (waiting_count_ > UsageKeeperOptions::kWaitingMax) {
      waiting_count_ -= waiting_.front().records.size();
      waiting_.pop_front();
    }
  }

  void Answer(const UsageQuery& query) {
    if (MonotonicNs() - written_ns_ > UsageKeeperOptions::kFreshNs) Write();
    Result<std::vector<UsageAnswer::Row>> rows =
        store_ ? store_->Ask(query)
               : Result<std::vector<UsageAnswer::Row>>(Status(StatusCode::kUnavailable,
                                                              "there are no usage records now: the "
                                                              "server's log says why"));
    UsageAnswer answer;
    answer.id = query.id;
    answer.code = rows.status().code();
    answer.sentence = rows.status().message();
    const std::span<const UsageAnswer::Row> all =
        rows.ok() ? std::span<const UsageAnswer::Row>(*rows) : std::span<const UsageAnswer::Row>();
    size_t sent = 0;
    do {
      const size_t count = std::min(all.size() - sent, UsageAnswer::kRowsAtOnce);
      answer.rows.assign(all.begin() + static_cast<ptrdiff_t>(sent), all.begin() + static_cast<ptrdiff_t>(sent + count));
      sent += count;
      answer.goes_on = sent < all.size();
      Encoder out(kUsageMessageBytesMax);
      answer.Encode(out);
      if (!SendMessage(line_.get(), out.bytes(), {}, MonotonicNs() + kSendNs).ok()) return;  // it does not read
    } while (sent < all.size());
  }

  const UniqueFd line_;
  const UsageKeeperOptions& options_;
  std::optional<UsageStore> store_;
  std::deque<UsageBatch> waiting_;
  size_t waiting_count_ = 0;  // records
  uint64_t write_ns_ = 0, written_ns_ = 0, again_ns_ = 0, drop_ns_ = 0;
  bool fails_;
};

Result<UniqueFd> BlockSignals() {
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGINT);
  if (sigprocmask(SIG_BLOCK, &handled, nullptr) != 0) return Status::FromErrno("cannot block signals", errno);
  UniqueFd signals(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid()) return Status::FromErrno("cannot create a signal descriptor", errno);
  return signals;
}

}  // namespace

Status RunUsageKeeper(UniqueFd line, UsageKeeperOptions options) {
  Result<UniqueFd> signals = BlockSignals();
  if (!signals.ok()) return signals.status();
  Status opened = MakeDirectory(options.directory, options.user);
  if (options.confine) RETURN_IF_ERROR(options.confine());
  Keeper keeper(std::move(line), options, options.opened.valid());
  const Status store = keeper.Open();
  if (opened.ok()) opened = store;
  if (options.opened.valid()) {
    const std::string& sentence = opened.message();
    if (!opened.ok() && write(options.opened.get(), sentence.data(), sentence.size()) < 0) LogDebug("nobody hears it");
    options.opened.reset();
  }
  for (;;) {
    pollfd ready[] = {{keeper.fd(), POLLIN, 0}, {signals->get(), POLLIN, 0}};
    poll(ready, 2, keeper.TimeoutMs());
    if (ready[0].revents != 0 && !keeper.Hear()) break;
    if (ready[1].revents != 0) break;
    keeper.Tend();
  }
  keeper.Write();
  return Status::Ok();
}

}  // namespace tessera
