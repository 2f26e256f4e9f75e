#pragma once
// A small snapshot and its records, for tests of readers.

#include <string>
#include <vector>

#include "base/digest.h"
#include "protocol/snapshots/manifest.h"

namespace reprise::protocol::snapshots {

inline const Key kTestMaster = master_key("a secret for the tests");

struct SealedSnapshot {
  static constexpr std::uint32_t kStored = 150;  // two pages of 64 and a tail

  static StateKind kind_of_tests() {
    return {.model = 0xfedcba9876543210,
            .arithmetic = 7,
            .page_bytes = 256,
            .slot_bytes = 96,
            .page_tokens = 64,
            .grid = 1};
  }

  explicit SealedSnapshot(std::string name_space = "tenant", TokenId first = 3) {
    manifest.name_space = std::move(name_space);
    manifest.kind = kind_of_tests();
    manifest.stored = manifest.logical = kStored;
    manifest.origin = "prompt_end";
    manifest.created = 1'700'000'000;
    for (std::uint32_t i = 0; i < kStored; ++i) manifest.tokens.push_back(first + static_cast<TokenId>(i));
    keys = keys_of(kTestMaster, manifest.kind.model, manifest.name_space);
    const PrefixNames names(keys, manifest.kind, manifest.tokens);
    manifest.references = {names.page(0), names.page(1), names.tail(kStored), names.slot(kStored, 0)};
    for (std::size_t i = 0; i < manifest.references.size(); ++i) {
      contents.emplace_back(i == 3 ? manifest.kind.slot_bytes : manifest.kind.page_bytes,
                            static_cast<std::byte>(17 * i + static_cast<unsigned>(first)));
      manifest.sums.push_back(digest_of(contents.back()));
    }
    id = names.manifest(kStored);
    sealed = seal_manifest(keys, id, manifest);
  }

  static RecordKind kind_of(std::size_t chunk) {
    return chunk < 2 ? RecordKind::kPage : chunk == 2 ? RecordKind::kTail : RecordKind::kSlot;
  }
  std::vector<std::byte> chunk(std::size_t index) const {
    return seal_record(keys, kind_of(index), manifest.references[index], {}, contents[index]);
  }

  Manifest manifest;
  NamespaceKeys keys;
  RecordId id;
  std::vector<std::vector<std::byte>> contents;
  std::vector<std::byte> sealed;
};

}  // namespace reprise::protocol::snapshots
