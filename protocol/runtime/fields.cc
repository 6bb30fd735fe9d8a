#include "protocol/runtime/fields.h"

namespace tessera {

void PutStrings(Encoder& out, const std::vector<std::string_view>& texts) {
  out.Pod(static_cast<uint32_t>(texts.size()));
  for (std::string_view text : texts) out.String(text);
}

void GetStrings(Decoder& in, std::vector<std::string_view>* texts) {
  const size_t count = in.CountOf(Decoder::kWhatRemains, sizeof(uint32_t));
  texts->resize(count);
  for (std::string_view& text : *texts) in.String(&text);
}

}  // namespace tessera
