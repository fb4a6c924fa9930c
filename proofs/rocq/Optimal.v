(** The error of integer Laplace noise, and that no private mechanism has a smaller one for all values. *)

From Coq Require Import Reals Lra Lia List ZArith FinFun.
From Sfumato Require Import Dist Privacy Series Geometric.
Import ListNotations.
Open Scope R_scope.

(** ** Sums of n q^n *)

Lemma sum_arithmetic q n : q <> 1 ->
  sum (fun k => INR k * q ^ k) (seq 0 n) = (q - q ^ n * (INR n * (1 - q) + q)) / ((1 - q) * (1 - q)).
Proof.
  intros Q. induction n as [|n IH]; [simpl; field; lra|].
  rewrite seq_S, sum_app, IH. cbn [sum fold_right plus]. rewrite S_INR. simpl. field. lra.
Qed.

Lemma total_shift_unique (f : nat -> R) s t : 0 <= f O -> total f s -> total (fun n => f (S n)) t -> s = f O + t.
Proof. intros P S T. eapply total_unique; [exact S|]. apply total_shift; auto. Qed.

Lemma total_tail (f : nat -> R) s : total f s -> {t | total (fun n => f (S n)) t}.
Proof.
  intros T. apply (total_exists _ s). intros l N. rewrite <- (sum_map S f). apply (total_ub _ _ _ T).
  apply Injective_map_NoDup; auto. intros x y E. congruence.
Qed.

Lemma total_arithmetic q : 0 < q < 1 -> total (fun n => INR n * q ^ n) (q / ((1 - q) * (1 - q))).
Proof.
  intros Q. assert (P : forall n, 0 <= INR n * q ^ n) by (intros; apply Rmult_le_pos; [apply pos_INR|apply pow_le; lra]).
  assert (D : 0 < (1 - q) * (1 - q)) by nra.
  destruct (total_exists (fun n => INR n * q ^ n) (q / ((1 - q) * (1 - q)))) as (s & T).
  { intros l N. destruct (incl_seq l) as [n I].
    apply Rle_trans with (sum (fun n => INR n * q ^ n) (seq 0 n)); [apply sum_incl; auto|].
    rewrite sum_arithmetic by lra. unfold Rdiv. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; auto|].
    assert (0 <= q ^ n * (INR n * (1 - q) + q)); [|lra].
    apply Rmult_le_pos; [apply pow_le; lra|]. pose proof (pos_INR n). nra. }
  assert (T' : total (fun n => INR (S n) * q ^ S n) (q * s + q / (1 - q))).
  { apply (total_ext (fun n => q * (INR n * q ^ n) + q * q ^ n)); [intros n; rewrite S_INR; simpl; ring|].
    apply total_plus.
    - intros n. apply Rmult_le_pos; [lra|apply P].
    - intros n. apply Rmult_le_pos; [lra|]. apply pow_le. lra.
    - apply Nat.eq_dec.
    - apply total_scale; [lra|exact T].
    - apply total_geometric; lra. }
  pose proof (total_shift_unique _ _ _ (P O) T T') as E. simpl in E. rewrite Rmult_0_l, Rplus_0_l in E.
  assert (s = q / ((1 - q) * (1 - q))); [|subst s; exact T].
  apply (Rmult_eq_reg_l (1 - q)); [|lra].
  replace ((1 - q) * (q / ((1 - q) * (1 - q)))) with (q / (1 - q)) by (field; lra). lra.
Qed.

(** Theorem. The expected error of integer Laplace noise is 2q/(1 - q^2), whatever the true value. *)
Theorem geometric_error q (Q : 0 < q < 1) x : total (fun y => noisy q Q x y * Rabs (IZR (y - x))) (2 * q / (1 - q * q)).
Proof.
  apply (total_translate (fun z => geometric_mass q z * Rabs (IZR z)) x).
  pose proof (head_pos q Q) as H. pose proof (total_arithmetic q Q) as T.
  replace (2 * q / (1 - q * q)) with ((1 - q) / (1 + q) * (q / ((1 - q) * (1 - q))) + (1 - q) / (1 + q) * (q / ((1 - q) * (1 - q))))
    by (field; nra).
  assert (A : forall n, Rabs (IZR (Z.of_nat n)) = INR n).
  { intros n. rewrite <- INR_IZR_INZ. apply Rabs_pos_eq, pos_INR. }
  apply total_integers.
  - apply (total_ext (fun n => (1 - q) / (1 + q) * (INR n * q ^ n))).
    { intros n. rewrite geometric_right, A. ring. }
    apply total_scale; [lra|exact T].
  - destruct (total_tail _ _ T) as (t & T').
    pose proof (total_shift_unique (fun n => INR n * q ^ n) _ _ ltac:(simpl; lra) T T') as E. simpl in E.
    rewrite Rmult_0_l, Rplus_0_l in E. rewrite E.
    apply (total_ext (fun n => (1 - q) / (1 + q) * (INR (S n) * q ^ S n))).
    { intros n. rewrite geometric_left.
      replace (-1 - Z.of_nat n)%Z with (- Z.of_nat (S n))%Z by lia. rewrite opp_IZR, Rabs_Ropp, A. simpl. ring. }
    apply total_scale; [lra|exact T'].
Qed.

(** ** Optimality *)

(** One side: masses that fall by at most the factor p from step to step. *)
Lemma one_side (b : nat -> R) p t e : 0 < p < 1 -> (forall n, 0 <= b n) -> (forall n, p * b n <= b (S n)) ->
  total (fun n => b (S n)) t -> total (fun n => INR (S n) * b (S n)) e ->
  p / ((1 - p) * (1 + p)) * b O + 2 * (p / ((1 - p) * (1 + p))) * t <= e.
Proof.
  intros P B F T E.
  assert (T0 : total b (b O + t)) by (apply total_shift; auto).
  assert (A : p * (b O + t) <= t).
  { apply (total_mono (fun n => p * b n) (fun n => b (S n))); auto. apply total_scale; [lra|exact T0]. }
  assert (E0 : total (fun n => INR n * b n) e).
  { replace e with (INR 0 * b O + e) by (simpl; lra). apply (total_shift (fun n => INR n * b n)); auto. simpl. lra. }
  assert (C : p * e + t <= e).
  { refine (total_mono (fun n => p * (INR n * b n) + b (S n)) (fun n => INR (S n) * b (S n)) _ _ _ _ E).
    - intros n. rewrite S_INR. specialize (F n). pose proof (pos_INR n). nra.
    - apply total_plus; auto using Nat.eq_dec.
      + intros n. apply Rmult_le_pos; [lra|]. apply Rmult_le_pos; auto using pos_INR.
      + apply total_scale; [lra|exact E0]. }
  assert (D : 0 < (1 - p) * (1 + p)) by nra.
  apply (Rmult_le_reg_r ((1 - p) * (1 + p))); auto.
  replace ((p / ((1 - p) * (1 + p)) * b O + 2 * (p / ((1 - p) * (1 + p))) * t) * ((1 - p) * (1 + p)))
    with (p * b O + 2 * p * t) by (field; lra).
  nra.
Qed.

(** Finitely many totals, added up. *)
Lemma total_sum {A B} (EA : forall a b : A, {a = b} + {a <> b}) (f : B -> A -> R) (s : B -> R) l :
  (forall b a, 0 <= f b a) -> (forall b, total (f b) (s b)) -> total (fun a => sum (fun b => f b a) l) (sum s l).
Proof.
  intros P T. induction l as [|b l IH]; simpl; [apply total_zero; auto|].
  apply total_plus; auto. intros a. apply sum_nonneg. auto.
Qed.

Section Optimality.
Variables (q rho : R) (M : Z -> law Z).
Hypothesis q_range : 0 < q < 1.

(** (1/q)-private for a count, whatever its value; and the expected error is at most rho for every value. *)
Hypothesis private_up : forall x y, q * M x y <= M (x + 1)%Z y.
Hypothesis private_down : forall x y, q * M (x + 1)%Z y <= M x y.
Hypothesis accurate : forall x l, NoDup l -> sum (fun y => M x y * Rabs (IZR (y - x))) l <= rho.

Section Weighted.
Variable lam : R.
Hypothesis lam_range : 0 < lam < 1.

Definition weight (x : Z) : R := lam ^ Z.abs_nat x.
Definition whole : R := 1 / (1 - lam) + lam / (1 - lam).

Lemma weight_pos x : 0 < weight x.
Proof. apply pow_lt. lra. Qed.

Lemma weight_total : total weight whole.
Proof.
  apply total_integers.
  - apply (total_ext (fun n => 1 * lam ^ n)); [intros n; unfold weight; rewrite Zabs2Nat.id; ring|].
    apply total_geometric; lra.
  - apply (total_ext (fun n => lam * lam ^ n)).
    { intros n. unfold weight. replace (Z.abs_nat (-1 - Z.of_nat n)) with (S n) by lia. reflexivity. }
    apply total_geometric; lra.
Qed.

Lemma whole_pos : 0 < whole.
Proof. unfold whole. assert (0 < / (1 - lam)) by (apply Rinv_0_lt_compat; lra). unfold Rdiv. nra. Qed.

Lemma weight_step x : lam * weight x <= weight (x + 1) /\ lam * weight (x + 1) <= weight x.
Proof.
  unfold weight.
  assert (S : forall m n, (n <= S m)%nat -> lam * lam ^ m <= lam ^ n).
  { intros m n L. change (lam ^ S m <= lam ^ n). apply pow_weaken; auto. }
  split; apply S; lia.
Qed.

(** The weighted mass of answers that are d below the true value. *)
Definition term (d x : Z) : R := weight x * M x (x - d)%Z.

Lemma term_nonneg d x : 0 <= term d x.
Proof. apply Rmult_le_pos; [left; apply weight_pos|apply mass_nonneg]. Qed.

Lemma term_bounded d l : NoDup l -> sum (term d) l <= whole.
Proof.
  intros N. apply Rle_trans with (sum weight l); [|apply (total_ub _ _ _ weight_total N)].
  apply sum_le. intros x _. unfold term. pose proof (weight_pos x). pose proof (mass_le_1 (M x) (x - d)%Z). nra.
Qed.

Definition at_distance (d : Z) : R := proj1_sig (total_exists (term d) whole (term_bounded d)).
Lemma at_distance_spec d : total (term d) (at_distance d).
Proof. unfold at_distance. apply proj2_sig. Qed.

Lemma at_distance_nonneg d : 0 <= at_distance d.
Proof. apply (total_nonneg (term d)). apply at_distance_spec. Qed.

Lemma distance_step d : lam * q * at_distance d <= at_distance (d + 1) /\ lam * q * at_distance (d + 1) <= at_distance d.
Proof.
  assert (R1 : total (fun x => term (d + 1) (x + 1)%Z) (at_distance (d + 1))).
  { apply (total_rename (fun x => x + 1)%Z (fun x => x - 1)%Z); [intros; lia|intros; lia|apply at_distance_spec]. }
  assert (E : forall x, term (d + 1) (x + 1) = weight (x + 1) * M (x + 1)%Z (x - d)%Z).
  { intros x. unfold term. do 2 f_equal. lia. }
  split.
  - eapply total_mono; [|apply total_scale; [nra|apply at_distance_spec]|exact R1].
    intros x. cbv beta. rewrite E. unfold term. destruct (weight_step x) as [A _].
    specialize (private_up x (x - d)). pose proof (weight_pos x). pose proof (weight_pos (x + 1)). pose proof (mass_nonneg (M x) (x - d)%Z).
    apply Rle_trans with (lam * weight x * (q * M x (x - d)%Z)); [right; ring|].
    apply Rmult_le_compat; nra.
  - eapply total_mono; [|apply total_scale; [nra|exact R1]|apply at_distance_spec].
    intros x. cbv beta. rewrite E. unfold term. destruct (weight_step x) as [_ A].
    specialize (private_down x (x - d)). pose proof (weight_pos x). pose proof (weight_pos (x + 1)). pose proof (mass_nonneg (M (x + 1)%Z) (x - d)%Z).
    apply Rle_trans with (lam * weight (x + 1) * (q * M (x + 1)%Z (x - d)%Z)); [right; ring|].
    apply Rmult_le_compat; nra.
Qed.

(** Over all distances: all mass is there, and the distances cost at most rho. *)
Lemma distances_bounded l : NoDup l -> sum at_distance l <= whole.
Proof.
  intros N.
  pose proof (total_sum Z.eq_dec term at_distance l term_nonneg at_distance_spec) as T.
  eapply total_mono; [|exact T|exact weight_total]. intros x. cbv beta. unfold term. rewrite sum_scale.
  assert (sum (fun d => M x (x - d)%Z) l <= 1).
  { rewrite <- (sum_map (fun d => x - d)%Z). apply mass_sum. apply Injective_map_NoDup; auto. intros a b. lia. }
  pose proof (weight_pos x). nra.
Qed.

Lemma costs_bounded l : NoDup l -> sum (fun d => Rabs (IZR d) * at_distance d) l <= rho * whole.
Proof.
  intros N.
  assert (T : total (fun x => sum (fun d => Rabs (IZR d) * term d x) l) (sum (fun d => Rabs (IZR d) * at_distance d) l)).
  { apply total_sum; [exact Z.eq_dec| |].
    - intros d x. apply Rmult_le_pos; [apply Rabs_pos|apply term_nonneg].
    - intros d. apply total_scale; [apply Rabs_pos|apply at_distance_spec]. }
  assert (R0 : 0 <= rho) by (apply Rle_trans with (2 := accurate 0 [] (NoDup_nil _)); simpl; lra).
  eapply total_mono; [|exact T|apply total_scale; [exact R0|exact weight_total]]. intros x. cbv beta.
  rewrite (sum_ext _ (fun d => weight x * (M x (x - d)%Z * Rabs (IZR ((x - d) - x))))).
  - rewrite sum_scale. rewrite <- (sum_map (fun d => x - d)%Z (fun y => M x y * Rabs (IZR (y - x)))).
    rewrite Rmult_comm. apply Rmult_le_compat_r; [left; apply weight_pos|]. apply accurate.
    apply Injective_map_NoDup; auto. intros a b. lia.
  - intros d _. unfold term. replace (x - d - x)%Z with (- d)%Z by lia. rewrite opp_IZR, Rabs_Ropp. ring.
Qed.

Lemma distances_whole s : total at_distance s -> whole <= s.
Proof.
  intros S. apply (total_le _ _ _ weight_total). intros l N.
  assert (T : total (fun d => sum (fun x => term d x) l) (sum weight l)).
  { apply (total_sum Z.eq_dec (fun x d => term d x) weight l).
    - intros; apply term_nonneg.
    - intros x. unfold term.
      assert (U : total (fun d => M x (x - d)%Z) 1).
      { apply (total_rename (fun d => x - d)%Z (fun y => x - y)%Z); [intros; lia|intros; lia|apply mass_total]. }
      pose proof (total_scale (weight x) _ _ (Rlt_le _ _ (weight_pos x)) U) as V. rewrite Rmult_1_r in V. exact V. }
  eapply total_mono; [|exact T|exact S]. intros d. cbv beta. apply (total_ub _ _ _ (at_distance_spec d) N).
Qed.

Lemma weighted_bound : 2 * (lam * q) / ((1 - lam * q) * (1 + lam * q)) <= rho.
Proof.
  set (p := lam * q). assert (P : 0 < p < 1) by (unfold p; nra).
  set (right := fun n => at_distance (Z.of_nat n)). set (left := fun n => at_distance (- Z.of_nat n)).
  assert (J1 : forall l : list nat, NoDup l -> NoDup (map (fun n => Z.of_nat (S n)) l)).
  { intros l N. apply Injective_map_NoDup; auto. intros a b. lia. }
  assert (J2 : forall l : list nat, NoDup l -> NoDup (map (fun n => (- Z.of_nat (S n))%Z) l)).
  { intros l N. apply Injective_map_NoDup; auto. intros a b. lia. }
  assert (A : forall n, Rabs (IZR (Z.of_nat n)) = INR n).
  { intros n. rewrite <- INR_IZR_INZ. apply Rabs_pos_eq, pos_INR. }
  destruct (total_exists (fun n => right (S n)) whole) as (tr & Tr).
  { intros l N. unfold right. rewrite <- (sum_map (fun n => Z.of_nat (S n))). apply distances_bounded; auto. }
  destruct (total_exists (fun n => left (S n)) whole) as (tl & Tl).
  { intros l N. unfold left. rewrite <- (sum_map (fun n => (- Z.of_nat (S n))%Z)). apply distances_bounded; auto. }
  destruct (total_exists (fun n => INR (S n) * right (S n)) (rho * whole)) as (er & Er).
  { intros l N. unfold right. rewrite (sum_ext _ (fun n => Rabs (IZR (Z.of_nat (S n))) * at_distance (Z.of_nat (S n)))) by (intros; rewrite A; auto).
    rewrite <- (sum_map (fun n => Z.of_nat (S n)) (fun d => Rabs (IZR d) * at_distance d)). apply costs_bounded; auto. }
  destruct (total_exists (fun n => INR (S n) * left (S n)) (rho * whole)) as (el & El).
  { intros l N. unfold left. rewrite (sum_ext _ (fun n => Rabs (IZR (- Z.of_nat (S n))) * at_distance (- Z.of_nat (S n)))) by (intros; rewrite opp_IZR, Rabs_Ropp, A; auto).
    rewrite <- (sum_map (fun n => (- Z.of_nat (S n))%Z) (fun d => Rabs (IZR d) * at_distance d)). apply costs_bounded; auto. }
  assert (Sr : forall n, p * right n <= right (S n)).
  { intros n. unfold right. replace (Z.of_nat (S n)) with (Z.of_nat n + 1)%Z by lia. apply distance_step. }
  assert (Sl : forall n, p * left n <= left (S n)).
  { intros n. unfold left. replace (- Z.of_nat n)%Z with (- Z.of_nat (S n) + 1)%Z by lia. apply distance_step. }
  pose proof (one_side right p tr er P (fun n => at_distance_nonneg _) Sr Tr Er) as Hr.
  pose proof (one_side left p tl el P (fun n => at_distance_nonneg _) Sl Tl El) as Hl.
  assert (Z0 : left O = right O) by reflexivity.
  assert (W : total at_distance (right O + tr + tl)).
  { apply total_integers; [apply (total_shift right); auto; apply at_distance_nonneg|].
    eapply total_ext; [|exact Tl]. intros n. unfold left. f_equal. lia. }
  assert (C : total (fun d => Rabs (IZR d) * at_distance d) (er + el)).
  { apply total_integers.
    - replace er with (Rabs (IZR (Z.of_nat 0)) * at_distance (Z.of_nat 0) + er) by (simpl; rewrite Rabs_R0; lra).
      apply (total_shift (fun n => Rabs (IZR (Z.of_nat n)) * at_distance (Z.of_nat n))).
      + apply Rmult_le_pos; [apply Rabs_pos|apply at_distance_nonneg].
      + eapply total_ext; [|exact Er]. intros n. cbv beta. rewrite A. reflexivity.
    - eapply total_ext; [|exact El]. intros n. cbv beta. unfold left.
      replace (-1 - Z.of_nat n)%Z with (- Z.of_nat (S n))%Z by lia. rewrite opp_IZR, Rabs_Ropp, A. reflexivity. }
  pose proof (distances_whole _ W) as W1.
  assert (C1 : er + el <= rho * whole) by (apply (total_le _ _ _ C); intros; apply costs_bounded; auto).
  set (k := p / ((1 - p) * (1 + p))) in *.
  assert (K : 0 < k) by (unfold k; apply Rmult_lt_0_compat; [lra|]; apply Rinv_0_lt_compat; nra).
  replace (2 * p / ((1 - p) * (1 + p))) with (2 * k) by (unfold k; field; split; lra).
  pose proof whole_pos. rewrite Z0 in Hl.
  apply (Rmult_le_reg_r whole); auto. nra.
Qed.
End Weighted.

(** Theorem. The expected error of every such mechanism is, for some value, at least that of integer Laplace noise. *)
Theorem geometric_error_is_optimal : 2 * q / (1 - q * q) <= rho.
Proof.
  assert (R0 : 0 <= rho) by (apply Rle_trans with (2 := accurate 0 [] (NoDup_nil _)); simpl; lra).
  apply (Rmult_le_reg_r (1 - q * q)); [nra|].
  replace (2 * q / (1 - q * q) * (1 - q * q)) with (2 * q) by (field; nra).
  destruct (Rle_dec (2 * q) (rho * (1 - q * q))) as [|N]; auto. exfalso.
  set (gap := 2 * q - rho * (1 - q * q)). assert (G : 0 < gap) by (unfold gap; lra).
  set (h := Rmin (1 / 2) (gap / (4 * (1 + rho)))).
  assert (H1 : h <= 1 / 2) by apply Rmin_l.
  assert (H2 : h <= gap / (4 * (1 + rho))) by apply Rmin_r.
  assert (Hp : 0 < h).
  { unfold h. apply Rmin_glb_lt; [lra|]. apply Rmult_lt_0_compat; auto. apply Rinv_0_lt_compat. lra. }
  assert (H3 : h * (4 * (1 + rho)) <= gap).
  { apply (Rmult_le_compat_r (4 * (1 + rho))) in H2; [|lra].
    replace (gap / (4 * (1 + rho)) * (4 * (1 + rho))) with gap in H2 by (field; lra). exact H2. }
  pose proof (weighted_bound (1 - h) ltac:(lra)) as B. set (p := (1 - h) * q) in *.
  assert (P : 0 < p < 1) by (unfold p; nra).
  apply (Rmult_le_compat_r ((1 - p) * (1 + p))) in B; [|nra].
  replace (2 * p / ((1 - p) * (1 + p)) * ((1 - p) * (1 + p))) with (2 * p) in B by (field; nra).
  assert (Q : q * q - p * p <= 2 * h).
  { unfold p. replace (q * q - (1 - h) * q * ((1 - h) * q)) with (q * q * (h * (2 - h))) by ring. 
    assert (q * q <= 1) by nra. assert (0 <= h * (2 - h)) by nra.
    apply Rle_trans with (1 * (h * (2 - h))); [apply Rmult_le_compat_r; lra|nra]. }
  assert (rho * (q * q - p * p) <= rho * (2 * h)) by (apply Rmult_le_compat_l; auto).
  assert (2 * q - 2 * p <= 2 * h) by (unfold p; nra).
  unfold gap in H3. nra.
Qed.
End Optimality.
