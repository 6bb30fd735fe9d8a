// The little of HTTP/1.1 that a collector of metrics speaks (RFC 9112): one request without a body, one answer, the end. Pure;
// any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

// Of a request, its line and its fields together.
inline constexpr size_t kHttpRequestBytesMax = 4096;

enum class HttpNeed {
  kMore,      // the request has not ended
  kMetrics,   // it asks for /metrics
  kHeadOnly,  // the same, without the body
  kElsewhere,
  kMethod,   // another method than GET and HEAD
  kTooLong,  // kHttpRequestBytesMax, and no end
  kGarbage,  // no HTTP/1
};
// What these first bytes of a connection are.
HttpNeed ReadHttpRequest(std::string_view bytes);

// The answer, after which the connection is closed. `metrics`: the body of kMetrics; what there is of it is told to kHeadOnly.
std::string HttpAnswer(HttpNeed need, std::string_view metrics);

}  // namespace tessera
