// Logging to stderr. Lower-case sentences, values after words; nothing above debug on the data path; never stdout.
//
//   LogInfo("session {} opened by pid {}", id, pid);
//
// The level comes from SetLogLevel(); its default is `warning`. Any thread may log. A line above debug that was written in the
// last 10 s is counted instead, and its next one says how often (log_bounds.h). Lines are made printable (printable.h). A line
// that finds no room, where stderr does not wait (the pipe to a parent, child_logs.h), is left out; how many were is said as soon
// as there is room. spdlog is behind this header; it and fmt (fmt.cc) are compiled into `base`, so that the stub gets no foreign
// library.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace tessera {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Names the process in every line, as in "tesserad". Call once, before the first thread. kUnlessTerminal: each line begins with
// the time of day (UTC) where stderr is no terminal; for services, whose logs are read later. To the lines of their children they
// add it.
enum class LogTimes { kNever, kUnlessTerminal };
void SetLogName(std::string_view name, LogTimes times = LogTimes::kNever);
void SetLogLevel(LogLevel level);
// Where lines go instead of to descriptor 2; the descriptor stays the caller's and open. While no other thread logs.
void SetLogFile(int fd);
int LogFile();
// "debug", "info", "warning", "error", "off"; false when `word` is none of these.
bool ParseLogLevel(std::string_view word, LogLevel* level);
bool LogEnabled(LogLevel level);
void LogLine(LogLevel level, std::string_view text);
void LogLineOfStranger(std::string_view line);
// A line that a child of this process has logged, whatever the level here: made printable, and with the time in front where lines
// of this process have it.
void LogLineOfChild(std::string_view line);

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(level)) LogLine(level, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogDebug(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
// A warning about somebody who has proved nothing yet, and who can cause it as often as he likes: of all these the process writes
// one a second, which says how many it left out.
template <typename... Args>
void LogStranger(fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(LogLevel::kWarning)) LogLineOfStranger(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace tessera
