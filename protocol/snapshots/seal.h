#pragma once
// Keys, names and seals of snapshots that leave the process (docs/formats/snapshot.md).
//
// All of it comes from one secret. A namespace of a model has a folder, whose name tells nothing without the secret,
// and two keys of its own: one seals contents (AES-256-GCM), one makes names (HMAC-SHA-256). Who knows a name knows
// neither the tokens behind it nor another namespace's names; who changes, swaps or moves what is sealed is found out
// when it is opened.
//
// OpenSSL stays inside seal.cc.
// Threading: pure functions and plain values.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/outcome.h"

namespace reprise::protocol::snapshots {

using Key = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 12>;
using Tag = std::array<std::byte, 16>;

/// A name without meaning: of a file, or of a namespace's folder.
struct RecordId {
  std::array<std::byte, 16> bytes{};

  auto operator<=>(const RecordId&) const = default;
  std::string hex() const;
  static std::optional<RecordId> from_hex(std::string_view text);
};
struct RecordIdHash {
  std::size_t operator()(const RecordId& id) const;
};

/// Keyed digest of a label and what follows it. Different labels never give the same but by chance.
Key keyed_digest(const Key& key, std::string_view label, std::span<const std::byte> data);
RecordId id_of(const Key& digest);

/// From what an operator wrote, or a file holds: at least kLeastSecret bytes, as hard to guess as it is to be.
inline constexpr std::size_t kLeastSecret = 16;
Key master_key(std::string_view secret);

struct NamespaceKeys {
  RecordId folder{};
  Key seal{};
  Key names{};
};
/// `model`: of weights and settings, whatever computes with them.
NamespaceKeys keys_of(const Key& master, std::uint64_t model, std::string_view name_space);
/// The same, for who knows the folder alone.
NamespaceKeys keys_of_folder(const Key& master, const RecordId& folder);

/// Random, for one use.
Nonce new_nonce();
/// `sealed` has as many bytes as `plain`, and may be the same place. `open_too`: what is not hidden, but sealed too.
Tag seal(const Key& key, const Nonce& nonce, std::span<const std::byte> open_too,
         std::span<const std::byte> plain, std::span<std::byte> sealed);
/// False: not what was sealed, or by another key. `plain` means nothing then.
[[nodiscard]] bool unseal(const Key& key, const Nonce& nonce, std::span<const std::byte> open_too,
                          std::span<const std::byte> sealed, const Tag& tag, std::span<std::byte> plain);

// The secret: given, read from a file, or made once and kept. These functions block; of processes that make one at
// once, all get the same.

/// Where a secret is kept that nobody has named a place for, apart from what it seals: $XDG_STATE_HOME/reprise or
/// ~/.local/state/reprise. Empty: there is no such place.
std::string usual_secret_file();

/// The error says what is wrong with it.
Outcome<Key, std::string> key_of_secret(std::string_view secret);
/// Of a file that others cannot read; made, with its folder, where it is not there. The error says what to do.
Outcome<Key, std::string> key_from_file(const std::string& path);

}  // namespace reprise::protocol::snapshots
