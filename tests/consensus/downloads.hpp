// Both sides of a download in one peer, as in a peer in mode `gossip`.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "consensus/transfer/state_download.hpp"
#include "consensus/transfer/state_server.hpp"

namespace gv {

class Downloads {
 public:
  /// Blocks may be of any size.
  Downloads(PeerId self, std::uint64_t session, StateDownload::Options options)
      : download(self, session, with_any_blocks(options)),
        server({.layout_hash = options.layout_hash}),
        self_(self),
        elements_(options.elements) {}

  void want(Time now, std::vector<PeerId> sources, Effects& out,
            const std::optional<ModelVersion>& wanted = std::nullopt) {
    values.resize(elements_);
    download.want(now, std::move(sources), wanted, out);
  }
  /// Handles a message. If it requests a model, sends `snapshot` as `version` or, if `version` is
  /// empty, as a new version of our own.
  void receive(Time now, PeerId from, const Message& message, const SnapshotPtr& snapshot,
               Effects& out) {
    download.receive(now, from, message, values, out);
    server.receive(now, from, message, out);
    keep_arrival();
    const auto* request = std::get_if<StateRequest>(&message);
    if (request == nullptr || !server.ask(now, from, *request, snapshot != nullptr, out)) return;
    const ModelVersion own =
        version_of_own({.step = snapshot->step, .samples = 0, .lineage = ++served_}, self_, 0);
    server.provide(0,
                   {.version = version.value_or(own),
                    .payload = {snapshot, std::as_bytes(std::span(snapshot->values))}},
                   out);
  }
  void receive_block(Time now, PeerId from, const Block& block, Effects& out) {
    download.receive_block(now, from, block, values, out);
    keep_arrival();
  }
  void lane_lost(Time now, PeerId peer, Effects& out) {
    download.lane_lost(now, peer, out);
    server.lane_lost(peer, out);
  }
  void peer_gone(Time now, PeerId peer, Effects& out) {
    server.forget(peer);
    download.peer_gone(now, peer, out);
  }
  void tick(Time now, Effects& out) {
    server.tick(now, out);
    download.tick(now, out);
  }
  Time deadline() const { return std::min(download.deadline(), server.deadline()); }
  bool is_waiting() const { return download.is_waiting(); }
  bool failed() const { return download.failed(); }
  std::optional<DownloadedModel> take_model() { return std::exchange(fetched, std::nullopt); }

  StateDownload download;
  StateServer server;
  std::vector<float> values;  ///< The values that `download` has received so far.
  std::optional<ModelVersion> version;
  std::optional<DownloadedModel> fetched;

 private:
  static StateDownload::Options with_any_blocks(StateDownload::Options options) {
    options.block_least = 1;
    return options;
  }

  void keep_arrival() {
    if (const auto arrival = download.take()) {
      fetched = {.source = arrival->source, .values = values, .step = arrival->version.step};
    }
  }

  PeerId self_;
  std::size_t elements_;
  std::uint64_t served_ = 0;
};

}  // namespace gv
