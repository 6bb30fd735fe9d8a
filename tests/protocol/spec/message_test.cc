// Every message of the forwarded API: what is encoded is what is decoded, and nothing that a peer may send in its place
// is taken for a message or makes the decoder read beyond the record.
#include <gtest/gtest.h>

#include "tests/protocol/spec/message_check.h"

namespace tessera {
namespace {

constexpr uint32_t kSeeds = 4;

class Messages : public ::testing::Test {
 protected:
  // Runs `check(message, text, bytes)` for several fillings of every message; the bytes lie in a block of exactly their
  // size, so that a sanitizer sees every read beyond.
  template <typename Check>
  void ForEach(Check check) {
    const std::vector<TestedMessage> messages = AllMessages();
    ASSERT_GT(messages.size(), 100u);
    for (const TestedMessage& message : messages) {
      for (uint32_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
        SCOPED_TRACE(std::string(message.name) + " seed " + std::to_string(seed));
        ValueSource source(seed);
        Encoder encoder;
        const std::string text = message.encode(source, encoder);
        ASSERT_TRUE(encoder.ok());
        check(message, text, std::vector<std::byte>(encoder.bytes().begin(), encoder.bytes().end()));
      }
    }
  }
};

TEST_F(Messages, AreDecodedAsEncoded) {
  ForEach([](const TestedMessage& message, const std::string& text, const std::vector<std::byte>& bytes) {
    Decoder decoder(bytes);
    EXPECT_EQ(message.decode(decoder), text);
    EXPECT_TRUE(decoder.AtEnd());
  });
}

TEST_F(Messages, AreDecodedFromUnalignedBytes) {
  ForEach([](const TestedMessage& message, const std::string& text, const std::vector<std::byte>& bytes) {
    std::vector<std::byte> shifted(bytes.size() + 1);
    std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
    Decoder decoder(std::span<const std::byte>(shifted).subspan(1));
    EXPECT_EQ(message.decode(decoder), text);
  });
}

TEST_F(Messages, AreRefusedAtEveryTruncation) {
  ForEach([](const TestedMessage& message, const std::string&, const std::vector<std::byte>& bytes) {
    for (size_t size = 0; size < bytes.size(); ++size) {
      const std::vector<std::byte> prefix(bytes.begin(), bytes.begin() + size);
      Decoder decoder(prefix);
      ASSERT_EQ(message.decode(decoder), "") << "with " << size << " of " << bytes.size() << " bytes";
    }
  });
}

TEST_F(Messages, AreReadWithinTheRecordWhenDamaged) {
  std::mt19937 random(1);
  ForEach([&random](const TestedMessage& message, const std::string&, std::vector<std::byte> bytes) {
    for (int change = 0; change < 40 && !bytes.empty(); ++change) {
      std::vector<std::byte> damaged = bytes;
      damaged[random() % bytes.size()] = static_cast<std::byte>(random() % 2 != 0 ? 0xff : random());
      Decoder decoder(damaged);
      const std::string text = message.decode(decoder);
      EXPECT_EQ(text.empty(), !decoder.ok());
    }
  });
}

}  // namespace
}  // namespace tessera
