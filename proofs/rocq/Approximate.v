(** (epsilon, delta): the hockey-stick sum, post-processing and composition. *)

From Coq Require Import Reals Lra Lia List.
From Sfumato Require Import Dist Privacy.
Import ListNotations.
Open Scope R_scope.

Section Pair.
Context {A : Type}.
Implicit Types (P Q : A -> R).

(** P is within (r, delta) of Q: on every finite set, hence on every event. *)
Definition within (r delta : R) P Q : Prop := forall l, NoDup l -> sum P l <= r * sum Q l + delta.

(** The hockey-stick sum: what P exceeds r Q by. *)
Theorem within_iff_hockey_stick r delta P Q :
  within r delta P Q <-> (forall l, NoDup l -> sum (fun a => Rmax 0 (P a - r * Q a)) l <= delta).
Proof.
  split.
  - intros H l N.
    set (worse := filter (fun a => if Rle_dec (P a) (r * Q a) then false else true) l).
    assert (E : sum (fun a => Rmax 0 (P a - r * Q a)) l = sum P worse - r * sum Q worse).
    { unfold worse. clear N. induction l as [|a l IH]; simpl; [lra|].
      destruct (Rle_dec (P a) (r * Q a)); simpl; rewrite IH.
      - rewrite Rmax_left by lra. lra.
      - rewrite Rmax_right by lra. lra. }
    rewrite E. specialize (H worse (NoDup_filter _ N)). lra.
  - intros H l N. specialize (H l N).
    assert (sum P l - r * sum Q l <= sum (fun a => Rmax 0 (P a - r * Q a)) l); [|lra].
    clear. induction l as [|a l IH]; simpl; [lra|]. pose proof (Rmax_r 0 (P a - r * Q a)). lra.
Qed.

(** Weights between 0 and 1 are no better than sets. *)
Lemma within_weighted r delta P Q (t : A -> R) : (forall a, 0 <= t a <= 1) -> within r delta P Q ->
  within r delta (fun a => P a * t a) (fun a => Q a * t a).
Proof.
  intros T H. rewrite within_iff_hockey_stick in *. intros l N. apply Rle_trans with (2 := H l N).
  apply sum_le. intros a _. specialize (T a). unfold Rmax.
  destruct (Rle_dec 0 (P a * t a - r * (Q a * t a))), (Rle_dec 0 (P a - r * Q a)); nra.
Qed.

End Pair.

(** ** Laws that agree up to a part of small mass *)

Section Parts.
Context {A : Type} (EA : decidable_equality A).
Implicit Types (P Q : law A).

(** A share [w] of P and a share [w'] of Q are within a ratio r of each other, as laws. *)
Definition parts (r w w' : R) P Q : Prop :=
  exists P1 Q1 : law A, (forall a, w * P1 a <= P a) /\ (forall a, w' * Q1 a <= Q a) /\
    (forall a, P1 a <= r * Q1 a) /\ (forall a, Q1 a <= r * P1 a).

Lemma rest_of_part w P P1 l : 0 <= w -> (forall a, w * P1 a <= P a) -> NoDup l -> sum P l <= w * sum P1 l + (1 - w).
Proof.
  intros W H N. apply le_epsilon. intros e He.
  destruct (Rle_dec (sum P l) (w * sum P1 l + (1 - w) + e)) as [|C]; auto. exfalso.
  assert (E : 0 < e / (w + 1)) by (apply Rmult_lt_0_compat; auto; apply Rinv_0_lt_compat; lra).
  apply (total_approx P1 1 (e / (w + 1)) (mass_total P1) E). intros m Nm.
  destruct (Rle_dec (sum P1 m) (1 - e / (w + 1))) as [|G]; auto. exfalso.
  set (u := nodup EA (l ++ m)). assert (Nu : NoDup u) by apply NoDup_nodup.
  assert (L : sum (fun a => P a + - w * P1 a) l <= sum (fun a => P a + - w * P1 a) u).
  { apply sum_incl; auto. intros a. specialize (H a). lra.
    intros a Ha. apply nodup_In, in_app_iff. auto. }
  assert (L' : sum P1 m <= sum P1 u).
  { apply sum_incl; auto using mass_nonneg. intros a Ha. apply nodup_In, in_app_iff. auto. }
  rewrite !sum_plus, !sum_scale in L. pose proof (mass_sum P u Nu).
  assert (w * (e / (w + 1)) <= e).
  { replace e with ((w + 1) * (e / (w + 1))) at 2 by (field; lra). nra. }
  nra.
Qed.

Theorem parts_within r w w' delta P Q : 0 <= r -> 1 - delta <= w <= 1 -> 1 - delta <= w' <= 1 -> 0 <= 1 - delta ->
  parts r w w' P Q -> within r delta P Q.
Proof.
  intros R0 W W' D1 (P1 & Q1 & HP & HQ & PQ & _) l N.
  assert (HP' : forall a, (1 - delta) * P1 a <= P a).
  { intros a. specialize (HP a). pose proof (mass_nonneg P1 a). nra. }
  assert (HQ' : forall a, (1 - delta) * Q1 a <= Q a).
  { intros a. specialize (HQ a). pose proof (mass_nonneg Q1 a). nra. }
  pose proof (rest_of_part (1 - delta) P P1 l D1 HP' N) as U.
  assert (V : (1 - delta) * sum Q1 l <= sum Q l) by (rewrite <- sum_scale; apply sum_le; auto).
  assert (X : sum P1 l <= r * sum Q1 l) by (rewrite <- sum_scale; apply sum_le; auto).
  nra.
Qed.

Lemma parts_symmetric r w w' P Q : parts r w w' P Q -> parts r w' w Q P.
Proof. intros (P1 & Q1 & H1 & H2 & H3 & H4). exists Q1, P1. auto. Qed.

Lemma parts_equal P : parts 1 1 1 P P.
Proof. exists P, P. repeat split; intros; lra. Qed.

Lemma parts_weaken r r2 w v w' v' P Q : r <= r2 -> v <= w -> v' <= w' -> parts r w w' P Q -> parts r2 v v' P Q.
Proof.
  intros R0 V V' (P1 & Q1 & H1 & H2 & H3 & H4). exists P1, Q1. repeat split; intros a;
    pose proof (mass_nonneg P1 a); pose proof (mass_nonneg Q1 a);
    specialize (H1 a); specialize (H2 a); specialize (H3 a); specialize (H4 a); nra.
Qed.
End Parts.

Lemma parts_product {A B} (EA : decidable_equality A) r1 r2 w1 w2 w1' w2' (P1 Q1 : law A) (P2 Q2 : law B) :
  0 <= w1 -> 0 <= w2 -> 0 <= w1' -> 0 <= w2' ->
  parts r1 w1 w1' P1 Q1 -> parts r2 w2 w2' P2 Q2 ->
  parts (r1 * r2) (w1 * w2) (w1' * w2') (joint EA P1 (fun _ => P2)) (joint EA Q1 (fun _ => Q2)).
Proof.
  intros W1 W2 W1' W2' (A1 & B1 & H1 & H2 & H3 & H4) (A2 & B2 & G1 & G2 & G3 & G4).
  exists (joint EA A1 (fun _ => A2)), (joint EA B1 (fun _ => B2)).
  assert (X : forall x y z t : R, 0 <= x -> 0 <= z -> x <= y -> z <= t -> x * z <= y * t)
    by (intros; apply Rmult_le_compat; auto).
  repeat split; intros (a, b); simpl; unfold joint_mass; simpl.
  - replace (w1 * w2 * (A1 a * A2 b)) with (w1 * A1 a * (w2 * A2 b)) by ring.
    apply X; auto; apply Rmult_le_pos; auto using mass_nonneg.
  - replace (w1' * w2' * (B1 a * B2 b)) with (w1' * B1 a * (w2' * B2 b)) by ring.
    apply X; auto; apply Rmult_le_pos; auto using mass_nonneg.
  - replace (r1 * r2 * (B1 a * B2 b)) with (r1 * B1 a * (r2 * B2 b)) by ring. apply X; auto using mass_nonneg.
  - replace (r1 * r2 * (A1 a * A2 b)) with (r1 * A1 a * (r2 * A2 b)) by ring. apply X; auto using mass_nonneg.
Qed.

Lemma parts_relabel {A B} (h : A -> B) back H1 H2 r w w' (P Q : law A) :
  parts r w w' P Q -> parts r w w' (relabel h back H1 H2 P) (relabel h back H1 H2 Q).
Proof.
  intros (P1 & Q1 & G1 & G2 & G3 & G4). exists (relabel h back H1 H2 P1), (relabel h back H1 H2 Q1).
  repeat split; intros b; simpl; destruct (back b); auto; lra.
Qed.

Section Approximate.
Context {Data : Type} (near : Data -> Data -> Prop).

Definition approximately {A} (r delta : R) (M : Data -> law A) : Prop :=
  forall D D', near D D' -> within r delta (M D) (M D').

Theorem private_iff_delta_zero {A} r (M : Data -> law A) : private near r M <-> approximately r 0 M.
Proof.
  split; intros H D D' N.
  - intros l _. rewrite <- sum_scale, Rplus_0_r. apply sum_le. intros a _. apply H; auto.
  - intros a. specialize (H D D' N [a]). simpl in H. assert (NoDup [a]) by (repeat constructor; simpl; tauto).
    specialize (H H0). lra.
Qed.

(** The definition by events is the same. *)
Theorem approximately_iff_events {A} (EA : decidable_equality A) r delta (M : Data -> law A) : 0 <= r ->
  approximately r delta M <->
  (forall D D', near D D' -> forall E p p', chance (M D) E p -> chance (M D') E p' -> p <= r * p' + delta).
Proof.
  intros R0. split.
  - intros H D D' N E p p' C C'. apply (total_le _ _ _ C). intros l Nl.
    assert (S : forall P : law A, sum (fun a => if E a then P a else 0) l = sum P (filter E l)).
    { intros P. clear. induction l as [|a l IH]; simpl; auto. destruct (E a); simpl; rewrite IH; lra. }
    pose proof (total_ub _ _ _ C' Nl) as U. rewrite S in U. rewrite S.
    specialize (H D D' N (filter E l) (NoDup_filter _ Nl)). nra.
  - intros H D D' N l Nl.
    assert (S : forall P : law A, chance P (fun a => if in_dec EA a l then true else false) (sum P l)).
    { intros P. unfold chance. apply (total_finite_eq _ l); auto.
      - apply sum_ext. intros a I. destruct (in_dec EA a l); tauto.
      - intros a. destruct (in_dec EA a l); [apply mass_nonneg|lra].
      - intros a I. destruct (in_dec EA a l); tauto. }
    exact (H D D' N _ _ _ (S _) (S _)).
Qed.

Theorem approximate_post_processing {A B} (EA : decidable_equality A) (EB : decidable_equality B)
  r delta (M : Data -> law A) (K : A -> law B) : 0 <= r ->
  approximately r delta M -> approximately r delta (fun D => after EA EB (M D) K).
Proof.
  intros R0 H D D' N m Nm. simpl.
  apply (total_le _ _ _ (second_sums EA (joint EA (M D) K) m)). intros l Nl.
  pose proof (total_ub _ _ _ (second_sums EA (joint EA (M D') K) m) Nl) as U.
  assert (S : forall P : law A, sum (fun a => sum (fun b => joint EA P K (a, b)) m) l
                              = sum (fun a => P a * sum (K a) m) l).
  { intros P. apply sum_ext. intros a _. simpl. unfold joint_mass. simpl. apply sum_scale. }
  rewrite S in U. rewrite S.
  assert (T : forall a, 0 <= sum (K a) m <= 1).
  { intros a. split; [apply sum_nonneg, mass_nonneg|apply mass_sum; auto]. }
  pose proof (within_weighted r delta _ _ _ T (H D D' N) l Nl) as W. simpl in W. nra.
Qed.

(** Group privacy: delta grows by a geometric sum. *)
Theorem approximate_group_privacy {A} r delta (M : Data -> law A) k : 0 <= r -> approximately r delta M ->
  forall D D', steps near k D D' -> within (r ^ k) (delta * sum (fun i => r ^ i) (seq 0 k)) (M D) (M D').
Proof.
  intros R0 H D D' C l N.
  assert (G : sum (M D) l <= r ^ k * sum (M D') l + delta * sum (fun i => r ^ i) (seq 0 k)); [|exact G].
  induction C as [D|k D D' D'' Nr C IH]; [simpl; lra|]. specialize (H D D' Nr l N).
  cbn [seq]. rewrite sum_cons, <- seq_shift, sum_map. cbn [pow]. rewrite (sum_scale r (fun i => r ^ i)).
  apply Rle_trans with (1 := H). apply (Rmult_le_compat_l r) in IH; auto. lra.
Qed.

(** Adaptive composition: the second bound is capped at 1 before the first is used. *)
Theorem approximate_composition {A B} (EA : decidable_equality A) r1 r2 d1 d2
  (M1 : Data -> law A) (M2 : A -> Data -> law B) : 0 <= r1 -> 0 <= r2 -> 0 <= d2 ->
  approximately r1 d1 M1 -> (forall a, approximately r2 d2 (M2 a)) ->
  approximately (r1 * r2) (d1 + d2) (fun D => joint EA (M1 D) (fun a => M2 a D)).
Proof.
  intros R1 R2 D2 H1 H2 D D' N l Nl. simpl. unfold joint_mass.
  rewrite (sum_by_first EA (fun a b => M1 D a * M2 a D b)), (sum_by_first EA (fun a b => M1 D' a * M2 a D' b)).
  set (first := firsts EA l). assert (Nf : NoDup first) by apply NoDup_nodup.
  set (S := fun X a => sum (M2 a X) (beside EA a l)).
  set (t := fun a => Rmin 1 (r2 * S D' a)).
  assert (E : forall X, sum (fun a => sum (fun b => M1 X a * M2 a X b) (beside EA a l)) first
                      = sum (fun a => M1 X a * S X a) first).
  { intros X. apply sum_ext. intros a _. apply sum_scale. }
  rewrite !E.
  assert (S0 : forall a, 0 <= S D' a) by (intros; apply sum_nonneg, mass_nonneg).
  assert (T : forall a, 0 <= t a <= 1).
  { intros a. unfold t. specialize (S0 a). split; [apply Rmin_glb; [lra|nra]|apply Rmin_l]. }
  assert (T2 : forall a, S D a <= t a + d2).
  { intros a. unfold t, Rmin. destruct (Rle_dec 1 (r2 * S D' a)).
    - assert (S D a <= 1) by (apply mass_sum, NoDup_beside; auto). lra.
    - apply (H2 a D D' N). apply NoDup_beside; auto. }
  apply Rle_trans with (sum (fun a => M1 D a * t a) first + d2).
  - apply Rle_trans with (sum (fun a => M1 D a * t a + M1 D a * d2) first).
    + apply sum_le. intros a _. pose proof (mass_nonneg (M1 D) a). specialize (T2 a). nra.
    + rewrite sum_plus, sum_scale_r. pose proof (mass_sum (M1 D) first Nf). nra.
  - pose proof (within_weighted r1 d1 _ _ t T (H1 D D' N) first Nf) as W. simpl in W.
    assert (sum (fun a => M1 D' a * t a) first <= r2 * sum (fun a => M1 D' a * S D' a) first); [|nra].
    rewrite <- sum_scale. apply sum_le. intros a _. pose proof (mass_nonneg (M1 D') a).
    assert (t a <= r2 * S D' a) by apply Rmin_r. nra.
Qed.
End Approximate.
