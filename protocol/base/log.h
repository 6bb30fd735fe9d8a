// Logging to stderr. Lower-case sentences, values after words; nothing above debug on the data path; never stdout.
//
//   LogInfo("session {} opened by pid {}", id, pid);
//
// The level comes from SetLogLevel(); its default is `warning`. Any thread may log. A line above debug is only counted if the
// same line was written in the last 10 s; the next one that is written says how often (log_bounds.h). Lines are made printable
// (printable.h). Where stderr is a pipe that does not wait (child_logs.h), a line that finds it full is left out; a later line
// says how many were. spdlog does the work. It and fmt (fmt.cc) are compiled into `base`, so that the stub needs no foreign
// library.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace tessera {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Names the process in every line, as in "tesserad". Call once, before the first thread. kUnlessTerminal: each line, also of a
// child, begins with the time of day (UTC) unless stderr is a terminal. For services, whose logs are read later.
enum class LogTimes { kNever, kUnlessTerminal };
void SetLogName(std::string_view name, LogTimes times = LogTimes::kNever);
void SetLogLevel(LogLevel level);
// Lines go to `fd` instead of descriptor 2. `fd` stays the caller's, and open. No other thread may log during this call.
void SetLogFile(int fd);
int LogFile();
// "debug", "info", "warning", "error", "off"; false when `word` is none of these.
bool ParseLogLevel(std::string_view word, LogLevel* level);
bool LogEnabled(LogLevel level);
void LogLine(LogLevel level, std::string_view text);
void LogLineOfStranger(std::string_view line);
// Writes a line that a child has logged, whatever the level here. It is made printable, and gets the time in front if our own
// lines have it.
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
// A warning about somebody who has not proved who he is, and who can cause it as often as he likes. The process writes one such
// line a second, which says how many were left out.
template <typename... Args>
void LogStranger(fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(LogLevel::kWarning)) LogLineOfStranger(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace tessera
