#pragma once
// Keys, names and encryption of snapshots outside the process (docs/formats/snapshot.md).
//
// All keys derive from one secret. Each namespace of a model has a folder name, which reveals nothing without
// the secret, and two keys: one encrypts contents (AES-256-GCM), one derives record names (HMAC-SHA-256). A
// name reveals neither its tokens nor names in other namespaces. Modified, swapped or moved records fail
// authentication.
//
// Only seal.cc uses OpenSSL.

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

/// An opaque name of a file or a namespace's folder.
struct RecordId {
  std::array<std::byte, 16> bytes{};

  auto operator<=>(const RecordId&) const = default;
  std::string hex() const;
  static std::optional<RecordId> from_hex(std::string_view text);
};
struct RecordIdHash {
  std::size_t operator()(const RecordId& id) const;
};

/// Returns the HMAC of a label and `data`. Different labels give independent digests.
Key keyed_digest(const Key& key, std::string_view label, std::span<const std::byte> data);
RecordId id_of(const Key& digest);

/// Derives the master key from a secret of at least kMinSecret bytes. The secret must be hard to guess.
inline constexpr std::size_t kMinSecret = 16;
Key master_key(std::string_view secret);

struct NamespaceKeys {
  RecordId folder{};
  Key seal{};
  Key names{};
};
/// Returns the keys of a namespace. `model` is the digest of weights and settings, independent of the device.
NamespaceKeys keys_of(const Key& master, std::uint64_t model, std::string_view name_space);
/// Returns the same keys when only the folder's name is known.
NamespaceKeys keys_of_folder(const Key& master, const RecordId& folder);

/// Returns a random nonce, to be used once.
Nonce new_nonce();
/// Returns 128 random bits.
RecordId random_id();
/// Encrypts `plain` to `sealed`, which has the same size and may be the same memory. `open_too` is
/// authenticated, not encrypted.
Tag seal(const Key& key, const Nonce& nonce, std::span<const std::byte> open_too,
         std::span<const std::byte> plain, std::span<std::byte> sealed);
/// Decrypts. Returns false if the data was modified or sealed with another key; `plain` is invalid then.
[[nodiscard]] bool unseal(const Key& key, const Nonce& nonce, std::span<const std::byte> open_too,
                          std::span<const std::byte> sealed, const Tag& tag, std::span<std::byte> plain);

// Sources of the secret: given, read from a file, or created once and kept. These functions block. If several
// processes create one at once, all get the same.

/// Returns the default file for the secret, outside the snapshot folder: $XDG_STATE_HOME/reprise or
/// ~/.local/state/reprise. Empty: neither is defined.
std::string usual_secret_file();

/// Returns the master key, or what is wrong with the secret.
Outcome<Key, std::string> key_of_secret(std::string_view secret);
/// Reads the key from a file that other users cannot read; creates the file and its folder if missing. The
/// error says what to do.
Outcome<Key, std::string> key_from_file(const std::string& path);

}  // namespace reprise::protocol::snapshots
