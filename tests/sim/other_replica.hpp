// A wrapper around a virtual peer's replica that can change what jobs do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "peer/node/replica.hpp"

namespace gv {

/// Forwards all calls to `inner`. Tests override run().
class OtherReplica : public Replica {
 public:
  explicit OtherReplica(std::unique_ptr<Replica> inner) : inner_(std::move(inner)) {}

  JobDone run(Job job) override { return inner_->run(std::move(job)); }
  void set_hooks(ReplicaHooks hooks) override { inner_->set_hooks(std::move(hooks)); }
  void mix_by(const MixRule& rule, std::uint64_t run_seed) override {
    inner_->mix_by(rule, run_seed);
  }
  std::uint64_t step() const override { return inner_->step(); }
  std::span<const float> parameters() const override { return inner_->parameters(); }
  std::span<const float> stage(std::size_t stage) const override { return inner_->stage(stage); }
  std::vector<float> part(std::uint32_t part) const override { return inner_->part(part); }
  ConservationChecksum checksum() const override { return inner_->checksum(); }
  std::vector<ReplicaPart> parts() const override { return inner_->parts(); }
  std::string restore(ReplicaPart part) override { return inner_->restore(std::move(part)); }

 private:
  std::unique_ptr<Replica> inner_;
};

}  // namespace gv
