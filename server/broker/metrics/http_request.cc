#include "server/broker/metrics/http_request.h"

#include <fmt/core.h>

#include <algorithm>

namespace tessera {
namespace {

struct Answer {
  const char* status;
  const char* fields;
  std::string_view body;
};

Answer AnswerFor(HttpNeed need, std::string_view metrics) {
  switch (need) {
    case HttpNeed::kMetrics:
    case HttpNeed::kHeadOnly: return {"200 OK", "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n", metrics};
    case HttpNeed::kElsewhere: return {"404 Not Found", "Content-Type: text/plain\r\n", "metrics are at /metrics\n"};
    case HttpNeed::kMethod:
      return {"405 Method Not Allowed", "Allow: GET, HEAD\r\nContent-Type: text/plain\r\n", "GET and HEAD are taken\n"};
    case HttpNeed::kTooLong:
      return {"431 Request Header Fields Too Large", "Content-Type: text/plain\r\n", "a request has 4096 bytes at most\n"};
    case HttpNeed::kMore:
    case HttpNeed::kGarbage: break;
  }
  return {"400 Bad Request", "Content-Type: text/plain\r\n", "that is no request of HTTP/1.1\n"};
}

// A token of RFC 9110.
bool IsMethod(std::string_view word) {
  return !word.empty() && word.size() <= 16 && std::ranges::all_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
}

}  // namespace

HttpNeed ReadHttpRequest(std::string_view bytes) {
  const size_t line_end = bytes.find("\r\n");
  const std::string_view line = bytes.substr(0, line_end);
  // Garbage is known as such before it ends.
  const std::string_view method = line.substr(0, line.find(' '));
  if (method.size() < line.size() ? !IsMethod(method) : !method.empty() && !IsMethod(method)) return HttpNeed::kGarbage;
  if (line_end == std::string_view::npos || bytes.find("\r\n\r\n") == std::string_view::npos) {
    return bytes.size() < kHttpRequestBytesMax ? HttpNeed::kMore : HttpNeed::kTooLong;
  }
  const size_t target_begin = method.size() + 1;
  const size_t target_end = line.find(' ', std::min(target_begin, line.size()));
  if (target_end == std::string_view::npos || !line.substr(target_end + 1).starts_with("HTTP/1.")) return HttpNeed::kGarbage;
  if (method != "GET" && method != "HEAD") return HttpNeed::kMethod;
  const std::string_view target = line.substr(target_begin, target_end - target_begin);
  if (target.substr(0, target.find('?')) != "/metrics") return HttpNeed::kElsewhere;
  return method == "GET" ? HttpNeed::kMetrics : HttpNeed::kHeadOnly;
}

std::string HttpAnswer(HttpNeed need, std::string_view metrics) {
  const Answer answer = AnswerFor(need, metrics);
  return fmt::format("HTTP/1.1 {}\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n{}", answer.status, answer.fields,
                     answer.body.size(), need == HttpNeed::kHeadOnly ? "" : answer.body);
}

}  // namespace tessera
