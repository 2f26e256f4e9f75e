// Token masks that arrive after the device worker needs them.

#include "base/token_mask.h"
#include "tests/actors/device_worker_harness.h"

namespace reprise::actors {
namespace {

using LateMask = DeviceWorkerContract;

// A late mask blocks only its own sequence, and the reply does not change.
TEST_F(LateMask, HoldsUpItsSequenceAlone) {
  start();
  constexpr std::uint32_t kCount = 6;
  const auto even = [] {
    auto mask = std::make_shared<TokenMask>(FakeModel::kVocab);
    for (TokenId token = 0; token < static_cast<TokenId>(FakeModel::kVocab); token += 2) mask->allow(token);
    mask->count = FakeModel::kVocab / 2;
    return SharedMask(std::move(mask));
  }();
  const auto begin = [&](const Open& sequence, const std::shared_ptr<MaskSlot>& masks) {
    auto [writer, reader] = runtime::make_stream<protocol::DecodeEvent>(kCount + 2);
    protocol::Decode job{
        .sequence = sequence.id, .max_tokens = kCount, .masks = masks, .out = std::move(writer)};
    job.sampling.temperature = 2;
    job.sampling.seed = 11;
    worker_.tell(std::move(job));
    return std::move(reader);
  };
  const auto read = [&](runtime::StreamReader<protocol::DecodeEvent>& reader, MaskSlot& masks,
                        const Open& sequence, bool late) {
    TokenList tokens;
    for (std::uint64_t step = 1;; ++step) {
      const auto event = reader.next_blocking(runtime::deadline_after(20s));
      if (!event.ok() || !event->token) return tokens;
      tokens.push_back(event->token->token);
      if (event->end) return tokens;
      if (late) {
        // It makes no progress, while another sequence computes a whole reply.
        const Open other = open();
        prefill(other, 40);
        EXPECT_EQ(decode(other, 3), FakeModel::reply_to(prompt(40), 3));
        close(other);
        EXPECT_FALSE(reader.next_blocking(runtime::deadline_after(1ms)).ok());
      }
      masks.put(step, even);
      worker_.tell(protocol::MaskReady{.sequence = sequence.id});
    }
  };
  TokenList replies[2];
  for (const bool late : {false, true}) {
    const Open sequence = open();
    prefill(sequence, 30);
    const auto masks = std::make_shared<MaskSlot>();
    if (!late) masks->put(0, even);
    auto reader = begin(sequence, masks);
    if (late) {
      EXPECT_FALSE(reader.next_blocking(runtime::deadline_after(1ms)).ok()) << "the first may be late, too";
      masks->put(0, even);
      worker_.tell(protocol::MaskReady{.sequence = sequence.id});
    }
    replies[late ? 1 : 0] = read(reader, *masks, sequence, late);
    close(sequence);
  }
  EXPECT_EQ(replies[0].size(), kCount);
  EXPECT_EQ(replies[0], replies[1]);
  for (const TokenId token : replies[0]) EXPECT_EQ(token % 2, 0) << token;
}

// Steps before the first masked one do not wait for it, and the first masked one waits even if its position
// moves.
TEST_F(LateMask, FreeStepsWaitForNoMask) {
  start();
  constexpr std::uint32_t kCount = 8;
  const auto whole = [&] {
    const Open sequence = open();
    prefill(sequence, 30);
    TokenList tokens = decode(sequence, kCount);
    close(sequence);
    return tokens;
  }();
  ASSERT_EQ(whole.size(), kCount);
  const Open sequence = open();
  prefill(sequence, 30);
  const auto masks = std::make_shared<MaskSlot>(3);
  auto [writer, reader] = runtime::make_stream<protocol::DecodeEvent>(kCount + 2);
  protocol::Decode job{
      .sequence = sequence.id, .max_tokens = kCount, .masks = masks, .out = std::move(writer)};
  job.sampling.temperature = 0;
  worker_.tell(std::move(job));
  TokenList tokens;
  const auto read = [&](std::size_t until) {
    while (tokens.size() < until) {
      const auto event = reader.next_blocking(runtime::deadline_after(20s));
      ASSERT_TRUE(event.ok() && event->token);
      tokens.push_back(event->token->token);
    }
  };
  read(3);
  EXPECT_FALSE(reader.next_blocking(runtime::deadline_after(1ms)).ok()) << "it waits for a mask";
  EXPECT_TRUE(masks->set_first_masked(5));
  worker_.tell(protocol::MaskReady{.sequence = sequence.id});
  read(5);
  EXPECT_FALSE(reader.next_blocking(runtime::deadline_after(1ms)).ok());
  const auto only = std::make_shared<TokenMask>(FakeModel::kVocab);
  only->allow(whole[5]);
  only->count = 1;
  masks->put(5, only);
  worker_.tell(protocol::MaskReady{.sequence = sequence.id});
  read(6);
  EXPECT_FALSE(reader.next_blocking(runtime::deadline_after(1ms)).ok());
  EXPECT_TRUE(masks->set_first_masked(MaskSlot::kNoStep));
  EXPECT_FALSE(masks->set_first_masked(MaskSlot::kNoStep));
  worker_.tell(protocol::MaskReady{.sequence = sequence.id});
  read(kCount);
  EXPECT_EQ(tokens, whole);
  close(sequence);
}

}  // namespace
}  // namespace reprise::actors
