#include "protocol/base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "protocol/base/clock.h"
#include "protocol/base/log_bounds.h"
#include "protocol/base/mutex.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

// Longer ones are cut: with all that is written around it a line is one piece of a pipe (PIPE_BUF).
constexpr size_t kLineBytesMax = 3800;
constexpr size_t kLineOfChildBytesMax = 4050;

std::atomic<int> log_fd{STDERR_FILENO};

// One write per line, so that lines of several processes do not mix.
class DescriptorSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (TellLeftOut() && Write(message)) return;
    ++left_out_;
    if (!waits_) TellWhenThereIsRoom();
  }
  void flush_() override {}

 private:
  // False when there is no room for it.
  bool TellLeftOut() {
    if (left_out_ == 0) return true;
    const std::string text = fmt::format("{} lines are left out here: who reads this log was too slow", left_out_);
    if (!Write(spdlog::details::log_msg({}, "tessera", spdlog::level::warn, text))) return false;
    left_out_ = 0;
    return true;
  }

  // Also when nothing is said any more: a thread waits for room, once for all that is left out until then.
  void TellWhenThereIsRoom() {
    const auto wait = [this] {
      pthread_setname_np(pthread_self(), "tessera-log");
      for (bool told = false; !told;) {
        pollfd log = {log_fd.load(), POLLOUT, 0};
        poll(&log, 1, kLookAgainMs);
        const std::lock_guard<std::mutex> lock(mutex_);
        told = TellLeftOut();
        if (told) waits_ = false;
      }
    };
    try {
      std::thread(wait).detach();
      waits_ = true;
    } catch (const std::system_error&) {
      // No thread can be had: the next line tells.
    }
  }

  // False when there is no room for it.
  bool Write(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const char* at = line.data();
    size_t left = line.size();
    while (left > 0) {
      const ssize_t written = write(log_fd.load(), at, left);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EAGAIN) return false;
      if (written <= 0) return true;
      at += written;
      left -= static_cast<size_t>(written);
    }
    return true;
  }

  static constexpr int kLookAgainMs = 1000;

  uint64_t left_out_ = 0;
  bool waits_ = false;  // a thread does, to tell it
};

constexpr const char* kTime = "%Y-%m-%dT%H:%M:%S.%eZ ";

spdlog::logger* MakeLogger(const std::string& pattern, spdlog::level::level_enum level) {
  auto* made = new spdlog::logger("tessera", std::make_shared<DescriptorSink>());
  made->set_pattern(pattern, spdlog::pattern_time_type::utc);
  made->set_level(level);
  return made;
}

// Owned for the life of the process and never destroyed: libraries log from exit handlers.
spdlog::logger& Logger() {
  static spdlog::logger* const logger = MakeLogger("%n: %l: %v", spdlog::level::warn);
  return *logger;
}
// Likewise, of what children have said.
spdlog::logger& ChildLogger() {
  static spdlog::logger* const logger = MakeLogger("%v", spdlog::level::trace);
  return *logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::off;
}

// Never destroyed either.
struct Said {
  Mutex mutex;
  LineRepeats repeats GUARDED_BY(mutex);
  OncePerSecond strangers GUARDED_BY(mutex);
};
Said& WasSaid() {
  static auto* const said = new Said;
  return *said;
}

}  // namespace

void SetLogName(std::string_view name, LogTimes times) {
  // In UTC: processes that have no time zone's file any more write into the same log.
  const bool told = times == LogTimes::kUnlessTerminal && isatty(log_fd.load()) == 0;
  const char* time = told ? kTime : "";
  Logger().set_pattern(fmt::format("{}{}[%P]: %l: %v", time, name), spdlog::pattern_time_type::utc);
  ChildLogger().set_pattern(fmt::format("{}%v", time), spdlog::pattern_time_type::utc);
}

void SetLogFile(int fd) { log_fd.store(fd); }
int LogFile() { return log_fd.load(); }

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

bool ParseLogLevel(std::string_view word, LogLevel* level) {
  constexpr std::pair<std::string_view, LogLevel> kWords[] = {{"debug", LogLevel::kDebug},
                                                              {"info", LogLevel::kInfo},
                                                              {"warning", LogLevel::kWarning},
                                                              {"error", LogLevel::kError},
                                                              {"off", LogLevel::kOff}};
  for (const auto& [name, value] : kWords) {
    if (name == word) {
      *level = value;
      return true;
    }
  }
  return false;
}

bool LogEnabled(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void LogLine(LogLevel level, std::string_view text) {
  const std::string line = Printable(text, kLineBytesMax);
  if (level == LogLevel::kDebug) return Logger().log(ToSpdlog(level), "{}", line);  // each step counts there
  Said& said = WasSaid();
  MutexLock lock(said.mutex);
  for (const LineRepeats::Line& one : said.repeats.Take(static_cast<int>(level), line, MonotonicNs())) {
    Logger().log(ToSpdlog(static_cast<LogLevel>(one.level)), "{}", one.text);
  }
}

void LogLineOfStranger(std::string_view line) {
  uint64_t left_out = 0;
  {
    Said& said = WasSaid();
    MutexLock lock(said.mutex);
    if (!said.strangers.Take(MonotonicNs(), &left_out)) return;
  }
  LogLine(LogLevel::kWarning, left_out == 0 ? std::string(line) : fmt::format("{} ({} others before)", line, left_out));
}

void LogLineOfChild(std::string_view line) {
  ChildLogger().log(spdlog::level::info, "{}", Printable(line, kLineOfChildBytesMax));
}

}  // namespace tessera
