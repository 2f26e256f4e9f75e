// The view of a prefix cache for users.

#include "actors/cache/cache_view.h"

#include <gtest/gtest.h>

#include <numeric>

#include "protocol/name_space.h"

namespace reprise::actors {
namespace {

using protocol::CacheScope;
using protocol::CacheView;
using protocol::ViewedNode;

TokenList tokens_from(TokenId first, std::size_t count) {
  TokenList tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

struct Viewed {
  void keep(const std::string& name_space, const TokenList& tokens, Origin origin = Origin::kHistory) {
    const FlightId flight = cache.begin_flight(name_space, tokens, now);
    cache.insert(
        name_space, tokens,
        {.snapshot = ++snapshots, .length = static_cast<std::uint32_t>(tokens.size()), .origin = origin},
        now);
    cache.end_flight(flight);
  }
  CacheView view(CacheScope scope, std::uint32_t max_nodes = 2000) const {
    return view_of(cache, {.scope = std::move(scope), .max_nodes = max_nodes}, now + std::chrono::seconds(5),
                   {.page_bytes = 1000, .slot_bytes = 7, .page_tokens = 64});
  }

  PrefixCache cache{{}};
  CacheTime now{1};
  std::uint64_t snapshots = 0;
};

TEST(CacheView, ShowsDepthsAndEntriesOfNodes) {
  Viewed viewed;
  TokenList one = tokens_from(0, 100), other = one;
  one.push_back(1000);
  one.push_back(1001);
  other.push_back(2000);
  viewed.keep("", one, Origin::kPromptEnd);
  viewed.keep("", other, Origin::kSystem);
  const CacheView view = viewed.view({.all = true});
  ASSERT_EQ(view.spaces.size(), 1u);
  EXPECT_FALSE(view.cut);
  const auto& nodes = view.spaces[0].nodes;
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].parent, ViewedNode::kNoParent);
  EXPECT_EQ(nodes[0].depth, 100u);
  EXPECT_FALSE(nodes[0].entry);
  EXPECT_EQ(nodes[1].parent, 0u);
  EXPECT_EQ(nodes[1].depth, 101u) << "walked last";
  EXPECT_EQ(nodes[1].tokens, 1u);
  ASSERT_TRUE(nodes[1].entry);
  EXPECT_EQ(nodes[1].entry->origin, Origin::kSystem);
  EXPECT_EQ(nodes[1].entry->bytes, 7u + 2 * 1000) << "as if it were alone";
  EXPECT_DOUBLE_EQ(nodes[1].entry->idle_s, 5);
  EXPECT_EQ(nodes[2].tokens, 2u);
  EXPECT_EQ(view.spaces[0].entries, 2u);
}

TEST(CacheView, ShowsWhyAnEntryWasRemoved) {
  Viewed viewed;
  viewed.keep("", tokens_from(0, 10));
  const auto victim = viewed.cache.least_valuable(viewed.now, true);
  ASSERT_TRUE(victim);
  viewed.cache.remove(victim->id, MissReason::kEvicted);
  const CacheView view = viewed.view({.all = true});
  ASSERT_EQ(view.spaces.size(), 1u);
  EXPECT_FALSE(view.spaces[0].nodes[0].entry);
  EXPECT_EQ(view.spaces[0].nodes[0].gone, MissReason::kEvicted);
}

TEST(CacheView, IsCutToTheNewestNodesAndTheirPaths) {
  Viewed viewed;
  for (TokenId i = 0; i < 300; ++i) {
    TokenList tokens = tokens_from(0, 10);
    tokens.push_back(100 + i);
    viewed.keep("", tokens);
  }
  const CacheView view = viewed.view({.all = true}, 50);
  EXPECT_TRUE(view.cut);
  ASSERT_EQ(view.spaces.size(), 1u);
  EXPECT_EQ(view.spaces[0].nodes.size(), 50u);
  EXPECT_EQ(view.spaces[0].entries, 300u) << "of all";
  for (std::size_t i = 1; i < 50; ++i) EXPECT_EQ(view.spaces[0].nodes[i].parent, 0u);
  EXPECT_FALSE(viewed.view({.all = true}, 301).cut);
}

TEST(CacheView, ATenantSeesItsOwn) {
  Viewed viewed;
  const std::string adapter = "adapter 0123456789abcdef\n";
  viewed.keep("", tokens_from(0, 10));
  viewed.keep(protocol::name_space_of("acme", ""), tokens_from(0, 11));
  viewed.keep(protocol::name_space_of("acme", "salt"), tokens_from(0, 12));
  viewed.keep(adapter + protocol::name_space_of("acme", ""), tokens_from(0, 13));
  viewed.keep(protocol::name_space_of("acm", "e"), tokens_from(0, 14));
  viewed.keep(protocol::name_space_of("", "secret"), tokens_from(0, 15));
  EXPECT_EQ(viewed.view({.all = true}).spaces_in_all, 6u);
  const CacheView own = viewed.view({.cache_owner = "acme"});
  EXPECT_EQ(own.spaces_in_all, 3u);
  for (const auto& space : own.spaces) EXPECT_EQ(space.owner, "acme");
  EXPECT_EQ(viewed.view({.cache_owner = "other"}).spaces_in_all, 0u);
  const CacheView shared = viewed.view({});
  ASSERT_EQ(shared.spaces.size(), 1u) << "a salt keeps apart where tenants share";
  EXPECT_EQ(shared.spaces[0].nodes[0].depth, 10u);
}

TEST(NameSpace, PartsAreRecoveredFromTheWhole) {
  for (const std::string owner : {"", "a", "12:34", "#0f"}) {
    for (const std::string salt : {"", "s", "1:a:"}) {
      const std::string whole = protocol::name_space_of(owner, salt);
      const protocol::NameSpaceParts parts = protocol::parts_of(whole);
      EXPECT_EQ(parts.owner, owner);
      EXPECT_EQ(parts.salted, !salt.empty());
      EXPECT_FALSE(parts.of_adapter);
    }
  }
  EXPECT_EQ(protocol::parts_of("adapter 00\n").owner, "");
  EXPECT_TRUE(protocol::parts_of("adapter 00\n1:a:").of_adapter);
  EXPECT_EQ(protocol::parts_of("adapter 00\n1:a:").owner, "a");
  EXPECT_EQ(protocol::parts_of("adapter ").owner, "") << "what nobody wrote does no harm";
  EXPECT_EQ(protocol::parts_of("99:a").owner, "a");
  EXPECT_EQ(protocol::parts_of("99999999999999999999999:a").owner, "");
}

}  // namespace
}  // namespace reprise::actors
